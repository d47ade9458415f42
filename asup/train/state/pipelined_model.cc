#include "asup/train/state/pipelined_model.h"

#include <fmt/ranges.h>

#include "asup/base/error.h"
#include "asup/models/task.h"
#include "asup/parallel/pipeline/messages.h"
#include "asup/precision/autocast.h"
#include "asup/train/pipeline_settings.h"
#include "asup/train/state/layer_times.h"

namespace asup::train {
namespace {

using torch::Tensor;

// Forward by the path; tests are in f32.
std::vector<parallel::Layer> by_path(models::Model& model, const models::ComputePath& path) {
  std::vector<parallel::Layer> layers = model.layers();
  for (parallel::Layer& layer : layers)
    layer.forward = [&model, path, inner = std::move(layer.forward)](const Tensor& input) {
      const models::ConvolutionScope scope(path.convolution, models::Pass::forward);
      const Autocast autocast(torch::kCPU, model.is_training() ? path.precision : Precision::fp32);
      return inner(models::laid_out(input, path));
    };
  return layers;
}

parallel::PipelineOptions options_of(const TrainConfig& config, const parallel::Grid& grid,
                                     std::vector<int> stages) {
  const parallel::PipelineSpec spec = pipeline_spec(config);
  return {.schedule = config.pipeline_schedule,
          .micro_batches = spec.micro_batches,
          .chunks = spec.chunks,
          .recompute = config.recompute,
          .random = config.dropout > 0,
          // Each group leaves out its own.
          .seed = static_cast<std::uint64_t>(config.seed * grid.shape().data + grid.place().data),
          .layers = std::move(stages),
          .describes = false};
}

}  // namespace

std::vector<int> measured_stages(Communicator& workers, const TrainConfig& config,
                                 models::Model& model, const models::ComputePath& path,
                                 const data::Batch& sample) {
  const models::ConvolutionScope scope(path.convolution, models::Pass::backward);
  const auto times = time_layers(model, by_path(model, path), sample.input);
  return fastest_cut(workers, grid_shape(config), times,
                     parallel::find_schedule(config.pipeline_schedule), pipeline_spec(config));
}

PipelinedModel::PipelinedModel(Communicator& workers, const TrainConfig& config,
                               std::shared_ptr<models::Model> model,
                               const models::ComputePath& path, std::vector<int> stages,
                               std::int64_t steps)
    : SpreadModel(workers, grid_shape(config)),
      config_(config),
      path_(path),
      workers_(workers),
      model_(std::move(model)) {
  pipeline_ = std::make_unique<parallel::Pipeline>(grid_.pipeline(), model_, by_path(*model_, path),
                                                   parallel::Pipeline::Loss(),
                                                   options_of(config, grid_, std::move(stages)));
  pipeline_->set_step(steps);
  copies_ = pipeline_->copies();
}

// A batch at the end of an epoch may be shorter, or empty here.
double PipelinedModel::backward(const data::Batch& batch, double weight) {
  const std::int64_t samples = batch.input.size(0);
  double loss = 0;
  if (samples > 0) {
    const models::ConvolutionScope scope(path_.convolution, models::Pass::backward);
    const int micro_batches = micro_batches_for(samples, config_);
    const std::vector<Tensor> targets = batch.target.chunk(micro_batches);
    const auto loss_of = [&](const Tensor& scores, int micro_batch) {
      return weight * models::sum_of_losses(scores, targets[static_cast<std::size_t>(micro_batch)],
                                            config_.label_smoothing);
    };
    loss = pipeline_->backward(batch.input, loss_of, micro_batches) / weight;
  }
  pipeline_->sum_shared_gradients();
  return loss;
}

// Of more than two, averages over groups depend on where in a message a number lies. Servers step
// both copies alike.
void PipelinedModel::stepped() {
  if (groups() > 1 && !config_.strategy.capabilities().needs_servers)
    pipeline_->make_shared_equal();
}

Tensor PipelinedModel::scores(const Tensor& input, bool at_first) {
  const Tensor scores = pipeline_->forward(input);
  const int last = pipeline_->last_rank();
  Communicator& group = grid_.pipeline();
  if (!at_first || last == 0) return scores;
  if (group.rank() == last) parallel::send_tensor(group, scores, 0, "a test's scores");
  return group.rank() == 0 ? parallel::recv_tensor(group, last, "a test's scores") : Tensor();
}

checkpoint::TensorsByName PipelinedModel::gather() { return pipeline_->gather(); }

std::string PipelinedModel::describe() const {
  const parallel::PipelineSpec spec = pipeline_spec(config_);
  const std::vector<std::size_t>& cut = pipeline_->cut();
  std::vector<std::string> stages;
  for (int stage = 0; stage < spec.stages(); ++stage) {
    std::vector<int> ranks;
    for (int group = 0; group < groups(); ++group)
      ranks.push_back(rank_at({group, spec.rank_of(stage), 0}, grid_.shape()));
    const std::size_t first = cut[static_cast<std::size_t>(stage)];
    const std::size_t last = cut[static_cast<std::size_t>(stage) + 1] - 1;
    stages.push_back(fmt::format(
        "{} on {} {}",
        first == last ? fmt::format("layer {}", first) : fmt::format("layers {}-{}", first, last),
        groups() > 1 ? "ranks" : "rank", fmt::join(ranks, ", ")));
  }
  return fmt::format("{} stages by {}, {} micro-batches: {}", spec.stages(),
                     config_.pipeline_schedule, spec.micro_batches, fmt::join(stages, "; "));
}

double PipelinedModel::bubble() {
  const parallel::PipelineStats stats = pipeline_->stats();
  double idle = stats.seconds > 0 ? 1 - stats.compute_seconds / stats.seconds : 0;
  workers_.all_reduce(buffer_of(std::span(&idle, 1)), ReduceOp::average).or_throw("the bubble");
  return idle;
}

}  // namespace asup::train
