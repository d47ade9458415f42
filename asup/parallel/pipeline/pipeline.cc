#include "asup/parallel/pipeline/pipeline.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/collective/mesh/mesh_communicator.h"
#include "asup/parallel/pipeline/micro_batches.h"
#include "asup/parallel/pipeline/random.h"
#include "asup/parallel/pipeline/shared_weights.h"
#include "asup/parallel/pipeline/stage_tensors.h"
#include "asup/parallel/pipeline/tensor_axis.h"
#include "asup/parallel/schedule/verify.h"

namespace asup::parallel {

using torch::Tensor;

namespace {

PipelineSpec spec_of(const PipelineSchedule& schedule, int ranks, const PipelineOptions& options) {
  PipelineSpec spec{.ranks = ranks,
                    .micro_batches = options.micro_batches,
                    .chunks = options.chunks > 0 ? options.chunks : schedule.least_chunks,
                    .placement = schedule.placement};
  require_valid(schedule, spec);
  return spec;
}

Cut cut_as_given(const std::vector<int>& counts, std::size_t layers, std::size_t stages) {
  require(counts.size() == stages, "layers of {} stages for a pipeline of {}: give one number each",
          counts.size(), stages);
  Cut cut{0};
  for (const int count : counts) {
    require(count >= 1, "a stage of {} layers: each has one at least", count);
    cut.push_back(cut.back() + static_cast<std::size_t>(count));
  }
  require(cut.back() == layers, "stages of {} layers together, and the model has {}", cut.back(),
          layers);
  return cut;
}

Cut cut_of(const std::vector<Layer>& layers, const PipelineSpec& spec,
           const PipelineOptions& options) {
  const auto stages = static_cast<std::size_t>(spec.stages());
  require(layers.size() >= stages,
          "{} stages ({} ranks × {}) of a model that has {} layers: each stage needs one at least. "
          "Use fewer ranks or chunks, or a deeper model",
          stages, spec.ranks, spec.chunks, layers.size());
  require(options.costs.empty() || options.costs.size() == layers.size(),
          "{} costs for {} layers: give one for each, or none", options.costs.size(),
          layers.size());
  if (!options.layers.empty()) return cut_as_given(options.layers, layers.size(), stages);
  return cut_evenly(options.costs.empty() ? std::vector<double>(layers.size(), 1.0) : options.costs,
                    stages);
}

}  // namespace

class Pipeline::Impl {
 public:
  Impl(std::unique_ptr<Communicator> owned, Communicator& communicator,
       std::shared_ptr<torch::nn::Module> model, std::vector<Layer> layers, Loss loss,
       PipelineOptions options)
      : owned_(std::move(owned)),
        communicator_(communicator),
        options_(std::move(options)),
        schedule_(find_schedule(options_.schedule)),
        spec_(spec_of(schedule_, communicator.size(), options_)),
        cut_(cut_of(layers, spec_, options_)),
        model_(std::move(model)),
        loss_(std::move(loss)),
        tensor_axis_(*model_, options_.tensor),
        tensors_(*model_, layers, cut_, spec_),
        own_(std::make_shared<OwnTensors>(model_)) {
    if (options_.random) claim_.emplace();
    tensors_.keep_only(rank());
    for (const StageTensor& entry : tensors_.all())
      if (entry.is_on(rank()))
        entry.is_parameter ? own_->add_parameter(entry.name, entry.tensor)
                           : own_->add_buffer(entry.name, entry.tensor);
    own_->to(options_.device);
    shared_ = std::make_unique<SharedWeights>(communicator_, tensors_);
    shared_->make_equal();
    if (options_.data) begin_alike(*options_.data);
    stages_ = make_stages(layers);
    (void)executor(spec_.micro_batches);
    if (options_.describes && rank() == 0) log().info("{}", describe());
  }

  int rank() const { return communicator_.rank(); }
  int last_rank() const { return spec_.rank_of(spec_.stages() - 1); }

  double backward(const Tensor& input, const LossOfMicroBatch& loss, int micro_batches) {
    shared_->begin_backward();
    std::vector<Tensor> inputs;
    if (rank() == spec_.rank_of(0))
      inputs = micro_batches_of(input, micro_batches, rank(), "input", "first");
    const Tensor sum = executor(micro_batches).run(step_++, inputs, loss);
    return from_last(sum.defined() ? sum.item<double>() : 0);
  }

  double step(const Tensor& input, const Tensor& target) {
    const int micro_batches = spec_.micro_batches;
    for (const Tensor* each : {&input, &target})
      if (each->defined()) require_divisible(*each, micro_batches);
    std::vector<Tensor> targets;
    if (rank() == last_rank())
      targets = micro_batches_of(target, micro_batches, rank(), "target", "last");
    const auto loss_of = [&](const Tensor& output, int micro_batch) {
      const Tensor& wanted = targets[static_cast<std::size_t>(micro_batch)];
      return loss_(output, wanted.to(options_.device)) * (1.0 / micro_batches);
    };
    const double loss = backward(input, loss_of, micro_batches);
    average_gradients();
    shared_->sum_gradients();
    return loss;
  }

  double squared_gradients() const {
    double sum = 0;
    for (const StageTensor& entry : tensors_.all())
      if (entry.is_parameter && entry.ranks.front() == rank() && tensor_axis_.counts(entry.name) &&
          entry.tensor.grad().defined())
        sum += entry.tensor.grad().to(torch::kDouble).square().sum().item<double>();
    return sum;
  }

  double clip_grad_norm(double most) {
    require(most > 0, "gradients are clipped to a norm above 0, not {}", most);
    tensor_axis_.require_group("the norm to clip by is of the whole model");
    double sum = squared_gradients();
    communicator_.all_reduce(buffer_of(std::span(&sum, 1))).or_throw("clipping gradients");
    tensor_axis_.sum(sum, "clipping gradients");
    const double norm = std::sqrt(sum);
    if (!(norm > most) || !std::isfinite(norm)) return norm;
    for (const Tensor& parameter : own_->parameters())
      if (parameter.grad().defined()) parameter.mutable_grad().mul_(most / norm);
    return norm;
  }

  std::map<std::string, Tensor> gather() {
    tensor_axis_.require_group("gathered it is whole");
    std::map<std::string, Tensor> whole;
    for (const StageTensor& entry : tensors_.all()) {
      const int owner = entry.ranks.front();
      if (rank() != 0 && rank() != owner) continue;
      Tensor copy = rank() == owner ? entry.tensor.detach().to(torch::kCPU).contiguous()
                                    : torch::empty(entry.shape, entry.type);
      const std::string doing = fmt::format("gathering {}", entry.name);
      if (rank() != owner) communicator_.recv(bytes_of(copy), owner).or_throw(doing);
      if (rank() == owner && owner != 0) communicator_.send(bytes_of(copy), 0).or_throw(doing);
      if (rank() == 0) whole[entry.name] = copy;
    }
    tensor_axis_.put_together(whole);
    return whole;
  }

  std::string describe() const {
    std::string text = fmt::format("{} stages by {}, {} micro-batches:", spec_.stages(),
                                   schedule_.name, spec_.micro_batches);
    for (int stage = 0; stage < spec_.stages(); ++stage) {
      const auto i = static_cast<std::size_t>(stage);
      text += fmt::format(" layers {}-{} on rank {}{}", cut_[i], cut_[i + 1] - 1,
                          spec_.rank_of(stage), stage + 1 < spec_.stages() ? "," : "");
    }
    return text;
  }

 private:
  friend class Pipeline;

  std::vector<std::unique_ptr<Stage>> make_stages(const std::vector<Layer>& layers) const {
    std::vector<std::unique_ptr<Stage>> stages;
    for (const int number : spec_.stages_of(rank())) {
      const auto begin = layers.begin();
      const auto i = static_cast<std::size_t>(number);
      const auto at = [&](std::size_t layer) { return begin + static_cast<std::ptrdiff_t>(layer); };
      stages.push_back(std::make_unique<Stage>(
          std::vector<Layer>(at(cut_[i]), at(cut_[i + 1])), tensors_.parameters_of(number),
          tensors_.buffers_of(number),
          Stage::Options{.number = number,
                         .first = number == 0,
                         .last = number + 1 == spec_.stages(),
                         .splits_backward = schedule_.splits_backward,
                         .recompute = options_.recompute,
                         .random = options_.random,
                         .seed = seed_of_replica(options_.seed, options_.data),
                         .device = options_.device}));
    }
    return stages;
  }

  // Of a schedule for so many micro-batches, which is proven when it is used first.
  Executor& executor(int micro_batches) {
    const auto known = executors_.find(micro_batches);
    if (known != executors_.end()) return known->second;
    PipelineSpec spec = spec_;
    spec.micro_batches = micro_batches;
    require_valid(schedule_, spec);
    return executors_
        .try_emplace(
            micro_batches, communicator_, spec, verified_schedules(schedule_, spec),
            [this](int number, int) -> Stage& { return stage(number); }, options_.device,
            options_.after_computing)
        .first->second;
  }

  Stage& stage(int number) const {
    const auto found =
        std::ranges::find_if(stages_, [&](const auto& each) { return each->number() == number; });
    check(found != stages_.end(), "stage {} is not on rank {}", number, rank());
    return **found;
  }

  // Of all steps; times of stages are of those with the usual number of micro-batches.
  PipelineStats stats() const {
    PipelineStats stats = executors_.at(spec_.micro_batches).stats();
    for (const auto& [micro_batches, other] : executors_) {
      if (micro_batches == spec_.micro_batches) continue;
      const PipelineStats more = other.stats();
      stats.steps += more.steps;
      stats.seconds += more.seconds;
      stats.compute_seconds += more.compute_seconds;
      stats.wait_seconds += more.wait_seconds;
    }
    return stats;
  }

  std::vector<std::string> copies() const {
    std::vector<std::string> names;
    for (const StageTensor& entry : tensors_.all())
      if (entry.is_parameter && entry.is_on(rank()) && entry.ranks.front() != rank())
        names.push_back(entry.name);
    return names;
  }

  double from_last(double value) {
    communicator_.broadcast(buffer_of(std::span(&value, 1)), last_rank())
        .or_throw(fmt::format("the loss of step {}", step_ - 1));
    return value;
  }

  std::vector<Tensor> own_parameters() const {
    std::vector<Tensor> parameters;
    for (const Tensor& parameter : own_->parameters())
      if (parameter.requires_grad()) parameters.push_back(parameter);
    return parameters;
  }

  // The first rank's, of those that train the same stages.
  void begin_alike(Communicator& data) {
    const torch::NoGradGuard no_grad;
    for (const bool parameters : {true, false})
      for (const Tensor& tensor : parameters ? own_->parameters() : own_->buffers()) {
        Tensor copy = tensor.detach().to(torch::kCPU).contiguous();
        data.broadcast(bytes_of(copy)).or_throw("making the first weights equal");
        tensor.detach().copy_(copy);
      }
  }

  void average_gradients() {
    if (!options_.data || options_.data->size() == 1) return;
    std::vector<Tensor> parameters = own_parameters(), gradients;
    const bool wide = std::any_of(parameters.begin(), parameters.end(), [](const Tensor& each) {
      return each.scalar_type() == torch::kDouble;
    });
    const torch::ScalarType type = wide ? torch::kDouble : torch::kFloat;
    for (const Tensor& parameter : parameters) {
      Tensor& gradient = parameter.mutable_grad();
      if (!gradient.defined()) gradient = torch::zeros_like(parameter);
      gradients.push_back(gradient.detach().to(torch::kCPU, type).contiguous());
    }
    std::vector<Buffer> buffers;
    for (const Tensor& gradient : gradients)
      buffers.push_back({gradient.data_ptr(), static_cast<std::size_t>(gradient.numel()),
                         wide ? Dtype::f64 : Dtype::f32});
    options_.data->all_reduce_together(buffers, ReduceOp::average).or_throw("averaging gradients");
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const Tensor& gradient = parameters[i].grad();
      if (gradient.data_ptr() != gradients[i].data_ptr()) gradient.copy_(gradients[i]);
    }
  }

  // Constant after construction.
  const std::unique_ptr<Communicator> owned_;
  Communicator& communicator_;
  const PipelineOptions options_;
  const PipelineSchedule& schedule_;
  const PipelineSpec spec_;
  const Cut cut_;
  const std::shared_ptr<torch::nn::Module> model_;
  const Loss loss_;
  const TensorAxis tensor_axis_;
  StageTensors tensors_;
  const std::shared_ptr<OwnTensors> own_;
  std::optional<GeneratorClaim> claim_;
  std::unique_ptr<SharedWeights> shared_;
  std::vector<std::unique_ptr<Stage>> stages_;
  std::map<int, Executor> executors_;  // by micro-batches

  std::int64_t step_ = 0;
};

Pipeline::Pipeline(Communicator& communicator, std::shared_ptr<torch::nn::Module> model,
                   std::vector<Layer> layers, Loss loss, PipelineOptions options)
    : impl_(std::make_unique<Impl>(nullptr, communicator, std::move(model), std::move(layers),
                                   std::move(loss), std::move(options))) {}

Pipeline::Pipeline(Communicator& communicator, torch::nn::Sequential model, Loss loss,
                   PipelineOptions options)
    : Pipeline(communicator, model.ptr(), layers_of(model), std::move(loss), std::move(options)) {}

Pipeline::Pipeline(Job& job, torch::nn::Sequential model, Loss loss, PipelineOptions options) {
  auto communicator = make_communicator(job);
  Communicator& all = *communicator;
  impl_ = std::make_unique<Impl>(std::move(communicator), all, model.ptr(), layers_of(model),
                                 std::move(loss), std::move(options));
}

Pipeline::~Pipeline() = default;

double Pipeline::step(const Tensor& input, const Tensor& target) {
  return impl_->step(input, target);
}
Tensor Pipeline::forward(const Tensor& input) {
  return impl_->executor(impl_->spec_.micro_batches).evaluate(input);
}
torch::nn::Module& Pipeline::module() { return *impl_->own_; }
std::vector<Tensor> Pipeline::parameters() { return impl_->own_parameters(); }
bool Pipeline::has_first_stage() const { return impl_->rank() == impl_->spec_.rank_of(0); }
bool Pipeline::has_last_stage() const { return impl_->rank() == impl_->last_rank(); }
double Pipeline::clip_grad_norm(double most) { return impl_->clip_grad_norm(most); }
std::map<std::string, Tensor> Pipeline::gather() { return impl_->gather(); }
PipelineStats Pipeline::stats() const { return impl_->stats(); }
std::string Pipeline::describe() const { return impl_->describe(); }
const std::vector<std::size_t>& Pipeline::cut() const { return impl_->cut_; }
double Pipeline::backward(const Tensor& input, const LossOfMicroBatch& loss, int micro_batches) {
  return impl_->backward(input, loss,
                         micro_batches > 0 ? micro_batches : impl_->spec_.micro_batches);
}
void Pipeline::average_gradients() { impl_->average_gradients(); }
void Pipeline::sum_shared_gradients() { impl_->shared_->sum_gradients(); }
void Pipeline::make_shared_equal() { impl_->shared_->make_equal(); }
std::vector<std::string> Pipeline::copies() const { return impl_->copies(); }
double Pipeline::squared_gradients() const { return impl_->squared_gradients(); }
Communicator& Pipeline::communicator() { return impl_->communicator_; }
int Pipeline::micro_batches() const { return impl_->spec_.micro_batches; }
int Pipeline::last_rank() const { return impl_->last_rank(); }
const PipelineSpec& Pipeline::spec() const { return impl_->spec_; }
void Pipeline::set_step(std::int64_t step) { impl_->step_ = step; }

}  // namespace asup::parallel
