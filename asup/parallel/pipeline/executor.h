// Carries a rank's schedule out, action by action. It is the only code that does, for every
// schedule, whether it ends with a step or goes on (schedule/stream.h). Used from the thread that
// trains.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "asup/collective/communicator.h"
#include "asup/parallel/pipeline/messages.h"
#include "asup/parallel/pipeline/stage.h"
#include "asup/parallel/schedule/cost.h"
#include "asup/parallel/schedule/schedule.h"

namespace asup::parallel {

// Since the executor was made.
struct PipelineStats {
  std::uint64_t steps = 0;
  double seconds = 0;          // of steps
  double compute_seconds = 0;  // of it, forward and backward
  double wait_seconds = 0;     // of it, for messages
  // Of a micro-batch, on the average, in each stage of this rank: what price() predicts a step by.
  std::map<int, StageTimes> stages{};
};

class Executor {
 public:
  static constexpr int kTest = -1;  // in the place of a micro-batch
  // What computes a stage of this rank, of a micro-batch or in a test; it outlives the executor.
  using StageOf = std::function<Stage&(int number, int micro_batch)>;

  // The communicator's ranks are those of the schedules.
  // `after_computing`: see PipelineOptions.
  Executor(Communicator& communicator, const PipelineSpec& spec,
           const std::vector<Schedule>& schedules, StageOf stage_of, torch::Device device,
           std::function<void(double seconds)> after_computing = {});

  // Forward and backward of the micro-batches, which the first stage's rank alone has. Gradients
  // are added up. Returns the sum of losses on the last stage's rank, elsewhere an undefined
  // tensor. Collective. Throws JobFailed.
  torch::Tensor run(std::int64_t step, const std::vector<torch::Tensor>& inputs,
                    const LossOfMicroBatch& loss);

  // The pieces that run() is made of, for schedules that do not end with a batch. Micro-batches are
  // counted on from batch to batch: stages and losses know them by their place in a batch, and the
  // stages have been told of the step that they begin.
  void begin(std::int64_t step);
  // The messages of another batch.
  void expect(int first_micro_batch) { messages_.expect(first_micro_batch); }
  // `inputs`: those of the batch whose forwards are among the actions.
  void carry_out(const Schedule& actions, const std::vector<torch::Tensor>& inputs);
  // What run() returns, of the forwards since it was asked for last.
  torch::Tensor take_loss() { return std::exchange(loss_, torch::Tensor()); }
  void end_batch() { ++stats_.steps; }
  void end();

  // The last stage's output, on its rank. Collective.
  torch::Tensor evaluate(const torch::Tensor& input);

  PipelineStats stats() const;

 private:
  using Place = std::pair<int, int>;  // stage, micro-batch

  int in_batch(const Action& action) const { return action.micro_batch % spec_.micro_batches; }
  bool is_here(int stage) const { return spec_.rank_of(stage) == communicator_.rank(); }
  void carry_out(const Action& action, const std::vector<torch::Tensor>& inputs);
  void forward(const Action& action, const std::vector<torch::Tensor>& inputs);
  void backward(const Action& action);
  void note(const Action& action, double seconds);

  // Constant after construction.
  Communicator& communicator_;
  const PipelineSpec spec_;
  const Schedule schedule_;
  const torch::Device device_;
  const StageOf stage_of_;
  const std::function<void(double seconds)> after_computing_;
  Messages messages_;

  // Of the step under way: what has been computed or has arrived, and is not used yet.
  std::map<Place, torch::Tensor> inputs_, gradients_;         // of stages here
  std::map<Place, torch::Tensor> outputs_, input_gradients_;  // to be sent
  torch::Tensor loss_;
  PipelineStats stats_;
};

}  // namespace asup::parallel
