// Lets a program of one's own stop, or die, and go on where it was:
//
//   asup::Checkpoint checkpoint(job, "runs/mine");
//   auto replica = checkpoint.distribute(model, optimizer);   // from the newest checkpoint, if any
//   asup::TrainingProgress progress = checkpoint.progress();
//   … asup::Sampler(job, n, {.epoch = progress.epoch, .position = progress.position}) …
//   checkpoint.save(progress);                                // now and then
//
// With embedding tables, checkpoint.add(embeddings) before distribute() has them in it too.
//
// A checkpoint has the model, the optimizer's state, each worker's buffers and random numbers, and
// what the way of training keeps; it may be read by another number of workers, and by another way.
// On as many workers, by the same way, training goes on to the same bits. The optimizer's options
// are the program's own: a scheduler is brought forward by calling its step() as often as before.
//
// Everything here is collective, and for the thread that trains. Files are written by a thread
// beside it, so that a step waits for a copy at most, and for a write before that has not ended
// yet; tables are written while workers wait. The folder is rank 0's; others need not see it. Where
// rank 0 is lost and others go on
// (`--on-loss continue`), the lowest of them writes to it; where that one does not see it, save()
// throws JobFailed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "asup/base/clock.h"
#include "asup/distribute/distribute.h"

namespace asup {

class Embeddings;

// How far a program has come, in its own count.
struct TrainingProgress {
  std::int64_t step = 0;       // done
  std::uint64_t epoch = 0;     // under way, from 0
  std::uint64_t position = 0;  // samples of this epoch that all workers have trained on
  std::map<std::string, std::string> notes{};  // whatever else the program wants to know again

  // A step over `samples`, of all workers, of a data set of `size`: the next epoch begins where
  // this one ends.
  void advance(std::uint64_t samples, std::uint64_t size);
};

struct CheckpointOptions {
  int keep = 2;          // older ones are deleted; 0: none is
  Seconds patience{20};  // for another program that writes there, which may just be ending
};

class Checkpoint {
 public:
  // The folder is made where it is not there. Throws JobFailed on all ranks where it cannot be, or
  // where another program writes it.
  Checkpoint(Job& job, std::string folder, CheckpointOptions options = {});
  ~Checkpoint();  // waits for the write under way
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  // These tables are saved and loaded with the rest. Once, after their table() calls and before
  // distribute(); they go after the last save().
  void add(Embeddings& embeddings);

  // As asup::distribute(), from the newest checkpoint that is whole, if there is one. Damaged ones
  // are passed over with a warning. Once; the replica goes before this. Throws JobFailed on all
  // ranks where the checkpoint is of another model, optimizer or tables.
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

  // As the checkpoint has it that training went on from; else as it is at the start.
  const TrainingProgress& progress() const;
  bool resumed() const;

  // Between two steps. Throws JobFailed on all ranks where this or an earlier one cannot be
  // written; those that were there before stay.
  void save(const TrainingProgress& progress);
  // Until it has been written.
  void wait();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace asup
