// Trains a model whose layers are spread over ranks: each has some of them, and a batch goes
// through in micro-batches.
//
//   auto job = asup::Job::join();
//   torch::manual_seed(1);
//   torch::nn::Sequential model(…);                         // the same on all ranks
//   asup::parallel::Pipeline pipeline(job, model, loss, {.schedule = "1f1b", .micro_batches = 8});
//   torch::optim::SGD optimizer(pipeline.parameters(), 0.1);  // of this rank's layers
//   for (…) {
//     optimizer.zero_grad();
//     double loss = pipeline.step(input, target);           // was: forward, loss.backward()
//     optimizer.step();
//   }
//
// A step has the gradients, and so the losses, of the whole batch in one process, whatever the
// schedule; losses are means over samples. BatchNorm takes its statistics over a micro-batch, as
// with gradient accumulation, and its running ones learn from each. Every rank makes the same calls
// in the same order, with batches of the same size.
//
// Used from the thread that trains; messages travel beside it.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "asup/collective/communicator.h"
#include "asup/net/job.h"
#include "asup/parallel/pipeline/executor.h"
#include "asup/parallel/pipeline/layer.h"

namespace asup::parallel {

struct PipelineOptions {
  std::string schedule = "1f1b";  // of pipeline_schedules()
  int micro_batches = 4;
  int chunks = 0;          // stages of a rank; 0: the fewest that the schedule has
  bool recompute = false;  // activations are computed again instead of kept
  // Layers draw at random (dropout): by this seed, the step, the stage and the micro-batch, so that
  // a run repeats and recomputation sees the same. One such pipeline in a process.
  bool random = true;
  std::uint64_t seed = 0;
  // What each layer costs, of anything that adds up (seconds); stages cost alike. Empty: all layers
  // cost the same.
  std::vector<double> costs{};
  // Or how many layers each stage has; empty: by costs.
  std::vector<int> layers{};
  torch::Device device = torch::kCPU;
  // Ranks that train the same stages on other batches (Grid::data()): gradients are averaged.
  Communicator* data = nullptr;
  // Ranks that have the same stages, and parts of layers that are cut (Grid::tensor()): the model's
  // norm and what is gathered are of all parts. Not the communicator that the layers talk by.
  Communicator* tensor = nullptr;
  // Called after each forward and backward of a micro-batch with the seconds that it took; what the
  // call takes counts as a part of it. For experiments with unequal ranks.
  std::function<void(double seconds)> after_computing{};
  bool describes = true;  // the first rank tells the log how the model is cut
};

class Pipeline {
 public:
  // The mean over samples, of outputs and targets.
  using Loss =
      std::function<torch::Tensor(const torch::Tensor& output, const torch::Tensor& target)>;

  // The model's modules, in order. Memory of those that are not this rank's is freed. Collective.
  // Throws BadInput for more stages than layers, a schedule that does not have so many
  // micro-batches or chunks. The communicator (of the stages: Grid::pipeline()) or the job must
  // outlive the pipeline.
  Pipeline(Communicator& communicator, torch::nn::Sequential model, Loss loss,
           PipelineOptions options = {});
  Pipeline(Job& job, torch::nn::Sequential model, Loss loss, PipelineOptions options = {});
  // Layers of any model; all its tensors are theirs.
  Pipeline(Communicator& communicator, std::shared_ptr<torch::nn::Module> model,
           std::vector<Layer> layers, Loss loss, PipelineOptions options = {});
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // Forward and backward of a batch. The first stage's rank needs the input, the last one's the
  // target; others may pass undefined tensors. Adds to the gradients; returns the batch's loss, on
  // all ranks. Throws BadInput for a batch that micro-batches do not divide, JobFailed that names
  // who was lost, or late with which micro-batch.
  double step(const torch::Tensor& input, const torch::Tensor& target);
  // What the whole model makes of a batch, on the last stage's rank; elsewhere undefined.
  torch::Tensor forward(const torch::Tensor& input);

  // Parameters and buffers of this rank, by their names in the model.
  torch::nn::Module& module();
  std::vector<torch::Tensor> parameters();
  void train(bool on = true) { module().train(on); }
  void eval() { train(false); }
  bool has_first_stage() const;
  bool has_last_stage() const;

  // Scales gradients down so that the norm of those of all stages together is at most this;
  // returns what it was. Collective, as gather() is, over PipelineOptions::tensor too; both throw
  // BadInput where layers are cut and it is not given.
  double clip_grad_norm(double most);
  // The whole model's parameters and buffers on rank 0 (of all parts' on the first), elsewhere
  // nothing: to save it.
  std::map<std::string, torch::Tensor> gather();

  PipelineStats stats() const;
  // "2 stages by 1f1b, 4 micro-batches: layers 0-4 on rank 0, layers 5-9 on rank 1".
  std::string describe() const;
  // Each stage's first layer, and behind them how many there are.
  const std::vector<std::size_t>& cut() const;

  // The pieces that step() is made of, for loops that exchange gradients by themselves.
  //
  // Forward and backward with this loss of a micro-batch; returns the sum of losses, on all ranks.
  // `micro_batches`: that the input is cut into this time, the same on all ranks; 0: as usual.
  double backward(const torch::Tensor& input, const LossOfMicroBatch& loss, int micro_batches = 0);
  // Over PipelineOptions::data.
  void average_gradients();
  // Adds up the gradients of parameters that several stages share (tied weights), which have the
  // same bits on their ranks afterwards. After averaging over other ranks.
  void sum_shared_gradients();
  // The other way round: where they are averaged afterwards, in an order that differs from rank to
  // rank, the optimizer's step leaves copies that differ by rounding. They become the first rank's.
  void make_shared_equal();
  // Parameters here that count as another rank's: copies of shared ones, by their names.
  std::vector<std::string> copies() const;
  // Of those that count as this rank's; shared ones count once, and so does what is the same on all
  // of PipelineOptions::tensor. f64.
  double squared_gradients() const;
  Communicator& communicator();
  int micro_batches() const;
  const PipelineSpec& spec() const;
  int last_rank() const;  // that has the last stage
  void set_step(std::int64_t step);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace asup::parallel
