// Embedding tables that servers keep, for models whose tables are larger than a worker's memory:
//
//   asup::Embeddings embeddings(job);
//   auto& items = embeddings.table("items", 10'000'000, 16,
//                                  {.optimizer = torch::optim::AdagradOptions(0.05)});
//   auto replica = embeddings.distribute(model, optimizer);    // the dense part, by any strategy
//   … loss = criterion(model->forward(items.forward(ids)), clicks);
//   loss.backward(); replica->step(); embeddings.step();
//
// forward() pulls the rows of its ids, each once, and is differentiable; step() pushes the sums of
// their gradients. A worker never has more than the rows of its step. Servers update the rows that
// were touched, and their state, and no others (docs/embeddings.md has what that means in bsp and
// asp).
//
// For the thread that trains. What is collective says so; calls throw JobFailed where a server was
// lost.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "asup/distribute/distribute.h"

namespace asup {

// Who waits for whom: in bsp an update is of the gradients of all workers, averaged by their
// samples; in asp each worker's is an update at once, by its share of a step.
enum class TablePace { bsp, asp };

struct EmbeddingsOptions {
  // None: bsp where the strategy in the environment keeps workers in step, else asp.
  std::optional<TablePace> pace{};
  Seconds timeout{0};  // as that of a Strategy
};

// SGD without momentum, Adagrad, or Adam by the rows that are touched; none with weight decay.
using RowOptimizer =
    std::variant<torch::optim::SGDOptions, torch::optim::AdagradOptions, torch::optim::AdamOptions>;

struct TableOptions {
  RowOptimizer optimizer = torch::optim::AdagradOptions{0.05};
  double init = 0.01;      // rows begin spread evenly over ±init
  std::uint64_t seed = 0;  // of what they begin with
};

class EmbeddingTable {
 public:
  ~EmbeddingTable();
  EmbeddingTable(const EmbeddingTable&) = delete;
  EmbeddingTable& operator=(const EmbeddingTable&) = delete;

  const std::string& name() const;
  std::int64_t rows() const;
  std::int64_t width() const;

  // Rows of these ids, which are int64 or int32 of any shape: one dimension more, of width(). On
  // the ids' device. Throws BadInput for an id that is no row.
  torch::Tensor forward(const torch::Tensor& ids);

  // Of the next steps.
  double lr() const;
  void set_lr(double lr);

 private:
  friend class Embeddings;
  class State;
  explicit EmbeddingTable(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Since the Embeddings were made, on this worker.
struct EmbeddingsStats {
  std::uint64_t steps = 0;
  std::uint64_t rows_pulled = 0;
  std::uint64_t rows_pushed = 0;
  std::uint64_t bytes_moved = 0;
  double wait_seconds = 0;  // for rows, and for updates before the last
};

class Embeddings {
 public:
  // One for a job, whose servers keep the tables. Throws BadInput where it has none. Collective.
  explicit Embeddings(Job& job, EmbeddingsOptions options = {});
  ~Embeddings();
  Embeddings(const Embeddings&) = delete;
  Embeddings& operator=(const Embeddings&) = delete;

  // A table; it is there as long as this. Names are of letters, digits, _ and -. Throws BadInput
  // for a table that cannot be, or that other workers want otherwise. Collective.
  EmbeddingTable& table(const std::string& name, std::int64_t rows, std::int64_t width,
                        TableOptions options = {});

  // Pushes the gradients that backward has left in all tables since the last step. `samples`: of
  // the batch, by which workers are weighed; without it all count alike. A worker without a batch
  // calls it too, with 0. Skipped where this worker's gradients are not finite: then they are left
  // out. Collective in bsp.
  StepResult step(std::uint64_t samples = 1);

  // All tables, with the state of their optimizers, one file each in the folder (safetensors), in
  // pieces of some megabytes. The lowest worker writes and reads them. Collective, between steps.
  void save(const std::string& folder);
  // Throws BadInput, on that worker, for files that are not of these tables.
  void load(const std::string& folder);
  // The same without loading: that they are there, of these tables and as long as they should be.
  // On one worker.
  void verify(const std::string& folder) const;

  // As asup::distribute(), for the dense part of the model; it may be trained by servers too, or by
  // all-reduce beside the tables.
  std::unique_ptr<DistributedReplica> distribute(torch::nn::Module& model,
                                                 torch::optim::Optimizer& optimizer);
  std::unique_ptr<DistributedReplica> distribute(torch::nn::Module& model,
                                                 torch::optim::Optimizer& optimizer,
                                                 const Strategy& strategy);
  template <typename Holder, typename... Rest>
  auto distribute(Holder& model, torch::optim::Optimizer& optimizer, const Rest&... rest)
      -> decltype(distribute(static_cast<torch::nn::Module&>(*model), optimizer, rest...)) {
    return distribute(static_cast<torch::nn::Module&>(*model), optimizer, rest...);
  }

  TablePace pace() const;
  EmbeddingsStats stats() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace asup
