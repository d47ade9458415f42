#include "asup/train/loop/pipeline_step.h"

namespace asup::train {

StepOutcome PipelineStep::run(const StepWork& work, double progress) {
  const auto samples = static_cast<std::size_t>(work.batch.input.size(0));
  for (auto& group : optimizer_.param_groups()) group.options().set_lr(work.lr);
  optimizer_.zero_grad();
  hooks_.before_batch(samples, progress);
  const double waited_before = model_.wait_seconds();
  replica_.describe_weighed_batch(samples);
  double loss = 0;
  {
    const NoSync local(replica_);  // gradients of micro-batches add up
    loss = model_.backward(work.batch, work.weight);
  }
  hooks_.after_batch(samples, model_.wait_seconds() - waited_before);
  return {work.step, static_cast<std::int64_t>(samples), loss};
}

}  // namespace asup::train
