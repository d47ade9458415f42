#include "asup/train/state/spread_model.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "asup/base/error.h"
#include "asup/models/task.h"
#include "asup/parallel/pipeline/messages.h"
#include "asup/parallel/tensor/regions.h"
#include "asup/precision/autocast.h"
#include "asup/sync/gradients/all_reduce.h"
#include "asup/sync/server/rules_of.h"
#include "asup/tensors/tensors.h"
#include "asup/train/offload.h"
#include "asup/train/pipeline_settings.h"
#include "asup/train/state/layer_times.h"
#include "asup/train/state/make_optimizer.h"

namespace asup::train {
namespace {

using torch::Tensor;

// Hooks are told of what the layers do in training.
void tell_of(std::vector<parallel::Layer>& layers, const models::Model& model, StepHooks& hooks) {
  if (!hooks.watches_layers()) return;
  for (parallel::Layer& layer : layers)
    layer.forward = [&model, &hooks, inner = std::move(layer.forward)](const Tensor& input) {
      const Tensor output = inner(input);
      if (!model.is_training()) return output;
      hooks.in_layer(/*backward=*/false);
      if (output.requires_grad())
        output.register_hook([&hooks](const Tensor&) { hooks.in_layer(/*backward=*/true); });
      return output;
    };
}

// Forward by the path; tests are in f32.
std::vector<parallel::Layer> by_path(models::Model& model, const models::ComputePath& path,
                                     StepHooks& hooks) {
  std::vector<parallel::Layer> layers = model.layers();
  tell_of(layers, model, hooks);
  for (parallel::Layer& layer : layers)
    layer.forward = [&model, path, inner = std::move(layer.forward)](const Tensor& input) {
      const models::ConvolutionScope scope(path.convolution, models::Pass::forward);
      const Autocast autocast(torch::kCPU, model.is_training() ? path.precision : Precision::fp32);
      return inner(models::laid_out(input, path));
    };
  return layers;
}

parallel::PipelineOptions options_of(const TrainConfig& config, parallel::Grid& grid,
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
          .tensor = &grid.tensor(),
          .describes = false};
}

// That a worker has memory for: the weights, their gradients, and what its optimizer keeps here.
double copies_of_weights(const TrainConfig& config, const models::Model& model) {
  if (config.strategy.capabilities().needs_servers || offloads_optimizer(config)) return 2;
  std::size_t slots = 0;
  for (const kernels::Rule& rule : sync::rules_of(*make_optimizer(config, model)))
    slots = std::max(slots, kernels::state_slots(rule));
  const auto* all_reduce = config.strategy.as<AllReduce>();
  const bool shards = all_reduce && all_reduce->shard != Shard::none;
  return 2 + static_cast<double>(slots) / static_cast<double>(shards ? groups_of(config) : 1);
}

}  // namespace

checkpoint::Cuts cuts_on_grid(const torch::nn::Module& model, const parallel::Grid& grid) {
  const auto cuts = parallel::cuts_of(model);
  checkpoint::Cuts parts;
  for (const auto& parameter : model.named_parameters()) {
    const auto found = cuts.find(parameter.key());
    if (found == cuts.end()) continue;
    const parallel::TensorCut& cut = found->second;
    checkpoint::Cut part{parallel::whole_shape(parameter->sizes(), cut), cut.dimension, {}};
    for (const parallel::IndexRange& range : cut.ranges(grid.place().tensor, grid.shape().tensor))
      part.ranges.push_back({range.begin, range.size});
    parts.emplace(parameter.key(), std::move(part));
  }
  return parts;
}

parallel::CutProblem measured_layers(Communicator& workers, parallel::Grid& grid,
                                     const TrainConfig& config, models::Model& model,
                                     const models::ComputePath& path, const data::Batch& sample,
                                     std::vector<parallel::LinkRate> links, StepHooks& hooks) {
  const models::ConvolutionScope scope(path.convolution, models::Pass::backward);
  parallel::CutProblem problem{
      .layers = time_layers(grid.tensor(), model, by_path(model, path, hooks), sample.input,
                            copies_of_weights(config, model)),
      .ranks = {parallel::RankCapacity()},
      .links = std::move(links),
      .recompute = config.recompute};
  if (config.worker_memory.bytes)
    problem.ranks.front().memory = static_cast<double>(*config.worker_memory.bytes);
  return of_all_workers(workers, grid.shape(), std::move(problem));
}

SpreadModel::SpreadModel(parallel::Grid& grid, std::optional<parallel::TensorGroup> tensor,
                         const TrainConfig& config, std::shared_ptr<models::Model> model,
                         const models::ComputePath& path, std::vector<int> stages,
                         std::int64_t steps, StepHooks& hooks)
    : grid_(grid),
      tensor_(std::move(tensor)),
      config_(config),
      path_(path),
      model_(std::move(model)),
      tensor_cuts_(parallel::cuts_of(*model_)),
      cuts_(cuts_on_grid(*model_, grid)),
      waited_elsewhere_(tensor_wait_seconds()) {
  if (has_pipeline(config)) {
    pipeline_ = std::make_unique<parallel::Pipeline>(
        grid.pipeline(), model_, by_path(*model_, path, hooks), parallel::Pipeline::Loss(),
        options_of(config, grid, std::move(stages)));
    pipeline_->set_step(steps);
    copies_ = pipeline_->copies();
  }
  if (!tensor_) return;
  for (const sync::NamedTensor& each : sync::parameters_of(module())) {
    if (tensor_cuts_.contains(each.name)) continue;
    uncut_.push_back(each);
    if (grid.place().tensor > 0) copies_.push_back(each.name);
  }
}

torch::nn::Module& SpreadModel::module() {
  return pipeline_ ? pipeline_->module() : static_cast<torch::nn::Module&>(*model_);
}

std::vector<std::string> SpreadModel::written() {
  if (group() != 0) return {};
  std::vector<std::string> names;
  for (const sync::NamedTensor& each : parts().counted(sync::parameters_of(module())))
    names.push_back(each.name);
  return names;
}

void SpreadModel::drop_copies(std::vector<sync::NamedTensor>& state) const {
  std::erase_if(state, [&](const sync::NamedTensor& each) {
    return std::ranges::any_of(
        copies_, [&](const std::string& copy) { return each.name.ends_with("/" + copy); });
  });
}

void SpreadModel::share_random() {
  at::Generator random = at::globalContext().defaultGenerator(at::kCPU);
  const Tensor state = random.get_state();
  grid_.model().broadcast(bytes_of(state), 0).or_throw("the state of random numbers");
  random.set_state(state);
}

// A batch at the end of an epoch may be shorter, or empty here.
double SpreadModel::backward(const data::Batch& batch, double weight) {
  const std::int64_t samples = batch.input.size(0);
  double loss = 0;
  if (samples > 0) {
    const models::ConvolutionScope scope(path_.convolution, models::Pass::backward);
    const int micro_batches = micro_batches_for(samples, config_);
    const std::vector<Tensor> targets = batch.target.chunk(micro_batches);
    const auto loss_of = [&](const Tensor& scores, int micro_batch) {
      return weight * models::sum_of_losses(scores, targets[static_cast<std::size_t>(micro_batch)],
                                            config_.label_smoothing, model_->cut_scores());
    };
    loss = pipeline_->backward(batch.input, loss_of, micro_batches) / weight;
  }
  pipeline_->sum_shared_gradients();
  return loss;
}

// Averages over more than two groups, and all that travel in a code, depend on where in a message a
// number lies and on what lies beside it, and parts may differ in length: what all of a tensor
// group have, and what two stages have, stays the same to the bit. Servers step all copies alike.
void SpreadModel::stepped() {
  if (groups() == 1 || config_.strategy.capabilities().needs_servers) return;
  make_uncut_equal();
  if (pipeline_) pipeline_->make_shared_equal();
}

void SpreadModel::make_uncut_equal() {
  if (uncut_.empty()) return;
  torch::NoGradGuard no_grad;
  std::vector<Tensor> flat;
  for (const sync::NamedTensor& each : uncut_) flat.push_back(each.tensor.flatten());
  const Tensor all = torch::cat(flat);
  grid_.tensor().broadcast(buffer_of(all), 0).or_throw("what all of a group have");
  std::int64_t at = 0;
  for (const sync::NamedTensor& each : uncut_) {
    Tensor tensor = each.tensor;
    tensor.copy_(all.narrow(0, at, tensor.numel()).view(tensor.sizes()));
    at += tensor.numel();
  }
}

Tensor SpreadModel::scores(const Tensor& input, bool at_first) {
  const double before = tensor_wait_seconds();
  Tensor scores = pipeline_ ? pipeline_->forward(input) : model_->forward_part(input);
  if (const auto cut = model_->cut_scores(); cut && scores.defined())
    scores = parallel::gather_from_region(scores, cut->classes, *cut->group);
  waited_elsewhere_ += tensor_wait_seconds() - before;
  if (grid_.place().tensor > 0) return {};
  const int last = pipeline_ ? pipeline_->last_rank() : 0;
  if (!at_first || last == 0) return scores;
  Communicator& stages = grid_.pipeline();
  if (stages.rank() == last) parallel::send_tensor(stages, scores, 0, "a test's scores");
  return stages.rank() == 0 ? parallel::recv_tensor(stages, last, "a test's scores") : Tensor();
}

checkpoint::TensorsByName SpreadModel::gather() {
  if (group() != 0) return {};
  torch::NoGradGuard no_grad;
  if (pipeline_) return pipeline_->gather();
  checkpoint::TensorsByName tensors = own_tensors();
  for (auto& [name, tensor] : tensors)
    if (const auto cut = tensor_cuts_.find(name); cut != tensor_cuts_.end())
      tensor = parallel::put_together(grid_.tensor(), tensor, cut->second, "the whole model");
  return tells() ? tensors : checkpoint::TensorsByName();
}

checkpoint::TensorsByName SpreadModel::own_tensors() const {
  checkpoint::TensorsByName tensors;
  for (const auto& of : {sync::parameters_of(*model_), sync::buffers_of(*model_)})
    for (const auto& [name, tensor] : sync::copies_of(of)) tensors[name] = tensor.contiguous();
  return tensors;
}

std::string SpreadModel::describe_stages() const {
  const parallel::GridShape& shape = grid_.shape();
  const parallel::PipelineSpec spec = pipeline_spec(config_);
  const std::vector<std::size_t>& cut = pipeline_->cut();
  std::vector<std::string> stages;
  for (int stage = 0; stage < spec.stages(); ++stage) {
    std::vector<int> ranks;
    for (int group = 0; group < shape.data; ++group)
      for (int part = 0; part < shape.tensor; ++part)
        ranks.push_back(rank_at({group, spec.rank_of(stage), part}, shape));
    const std::size_t first = cut[static_cast<std::size_t>(stage)];
    const std::size_t last = cut[static_cast<std::size_t>(stage) + 1] - 1;
    stages.push_back(fmt::format(
        "{} on {} {}",
        first == last ? fmt::format("layer {}", first) : fmt::format("layers {}-{}", first, last),
        ranks.size() > 1 ? "ranks" : "rank", fmt::join(ranks, ", ")));
  }
  return fmt::format("{} stages by {}, {} micro-batches: {}", spec.stages(),
                     config_.pipeline_schedule, spec.micro_batches, fmt::join(stages, "; "));
}

std::string SpreadModel::describe_tensor_groups() const {
  const int ranks = grid_.shape().tensor;
  if (ranks == 1) return "";
  std::vector<std::string> groups;
  for (int first = 0; first < grid_.shape().workers(); first += ranks)
    groups.push_back(fmt::format("ranks {}-{}", first, first + ranks - 1));
  return fmt::format("{} ranks compute {} together: {}", ranks,
                     has_stages() ? "each layer" : "a model", fmt::join(groups, "; "));
}

double SpreadModel::wait_seconds() const {
  return (pipeline_ ? pipeline_->stats().wait_seconds : 0) + tensor_wait_seconds() -
         waited_elsewhere_;
}

std::uint64_t SpreadModel::bytes_moved() const {
  return grid_.pipeline().bytes_moved() + grid_.tensor().bytes_moved() +
         grid_.model().bytes_moved() + (tensor_ ? tensor_->communicator().bytes_moved() : 0);
}

double SpreadModel::bubble() const {
  const parallel::PipelineStats stats = pipeline_->stats();
  return stats.seconds > 0 ? 1 - stats.compute_seconds / stats.seconds : 0;
}

}  // namespace asup::train
