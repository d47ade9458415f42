#include "asup/parallel/pipeline/streaming_pipeline.h"

#include <array>
#include <deque>
#include <utility>

#include "asup/base/error.h"
#include "asup/collective/mesh/mesh_communicator.h"
#include "asup/parallel/pipeline/late_gradients.h"
#include "asup/parallel/pipeline/micro_batches.h"
#include "asup/parallel/pipeline/random.h"
#include "asup/parallel/pipeline/stage_tensors.h"
#include "asup/parallel/schedule/stream.h"
#include "asup/parallel/schedule/verify.h"

namespace asup::parallel {

using torch::Tensor;
using torch::optim::Optimizer;

namespace {

PipelineOptions streaming(PipelineOptions options, int ranks) {
  options.schedule = "1f1b";
  require_streams({.ranks = ranks,
                   .micro_batches = options.micro_batches,
                   .chunks = std::max(1, options.chunks)});
  return options;
}

// Of a batch, whose messages each of them has. That batches in a row are 1F1B too is proven for
// three of them, and schedule/stream.h says the rest.
std::vector<Schedule> proven_schedules(PipelineSpec spec) {
  const PipelineSchedule& row = find_schedule("1f1b");
  std::vector<Schedule> schedules = verified_schedules(row, spec);
  spec.micro_batches *= 3;
  (void)verified_schedules(row, spec);
  return schedules;
}

std::vector<double> rates_of(const Optimizer& optimizer) {
  std::vector<double> rates;
  for (const auto& group : optimizer.param_groups()) rates.push_back(group.options().get_lr());
  return rates;
}

void set_rates(Optimizer& optimizer, const std::vector<double>& rates) {
  auto& groups = optimizer.param_groups();
  for (std::size_t i = 0; i < groups.size(); ++i) groups[i].options().set_lr(rates[i]);
}

// What every other batch is computed with: a copy of this rank's layers.
struct Version {
  std::shared_ptr<torch::nn::Module> module;  // whose layers compute
  std::unique_ptr<Stage> stage;
  struct Weight {
    Tensor known, here;  // to the optimizer, and to the stage
  };
  std::vector<Weight> weights;

  // The optimizer's weights become the stage's.
  void renew() {
    for (Weight& weight : weights) weight.here.copy_(weight.known);
  }
};

}  // namespace

class StreamingPipeline::Impl {
 public:
  Impl(std::unique_ptr<Communicator> owned, Communicator& communicator, const MakeModel& make,
       Pipeline::Loss loss, PipelineOptions options)
      : Impl(std::move(owned), communicator, make, make(), std::move(loss), std::move(options)) {}
  Impl(std::unique_ptr<Communicator> owned, Communicator& communicator, const MakeModel& make,
       const LayeredModel& model, Pipeline::Loss loss, PipelineOptions options)
      : owned_(std::move(owned)),
        communicator_(communicator),
        options_(streaming(std::move(options), communicator.size())),
        pipeline_(communicator, model.module, model.layers, loss, options_),
        loss_(std::move(loss)),
        spec_(pipeline_.spec()),
        executor_(
            communicator, spec_, proven_schedules(spec_),
            [this](int, int micro_batch) -> Stage& {
              return *version_of(micro_batch / spec_.micro_batches).stage;
            },
            options_.device),
        late_(communicator) {
    for (Version& version : versions_) version = make_version(make());
    share(model);
  }

  Pipeline& settled() {
    check(batches_ == 0, "batches are on their way: call settle() first");
    return pipeline_;
  }
  Pipeline& pipeline() { return pipeline_; }
  PipelineStats stats() const { return executor_.stats(); }

  void step(const Tensor& input, const Tensor& target, Optimizer& optimizer) {
    const std::vector<Tensor> inputs = begin_batch(input, target, optimizer);
    carry_out(stream_of_batch(rank(), spec_, batches_), inputs);
    if (is_last()) losses_ += executor_.take_loss().item<double>();
    // The last rank's batch has come back; to others that of the one before has.
    if (is_last()) update(batches_, optimizer);
    if (!is_last() && batches_ > 0) update(batches_ - 1, optimizer);
    ++batches_;
  }

  double settle(Optimizer& optimizer) {
    if (batches_ > 0) {
      carry_out(stream_rest(rank(), spec_, batches_), {});
      executor_.end();
      if (!is_last()) update(batches_ - 1, optimizer);
      const torch::NoGradGuard no_grad;
      late_.settle();
      if (!late_.empty()) step_by(last_rates_, optimizer);
      for (Version& version : versions_) version.renew();
    }
    const int batches = std::exchange(batches_, 0);
    double mean = std::exchange(losses_, 0) / std::max(1, batches);
    communicator_.broadcast(buffer_of(std::span(&mean, 1)), spec_.ranks - 1)
        .or_throw("the losses of a stretch");
    return mean;
  }

 private:
  int rank() const { return communicator_.rank(); }
  bool is_last() const { return rank() + 1 == spec_.ranks; }
  Version& version_of(int batch) { return versions_[static_cast<std::size_t>(batch % 2)]; }

  // Other ranks' layers are freed. Buffers, such as BatchNorm's statistics, have no versions.
  Version make_version(const LayeredModel& model) {
    StageTensors tensors(*model.module, model.layers, pipeline_.cut(), spec_);
    tensors.keep_only(rank());
    model.module->to(options_.device);
    Version version{model.module, nullptr, {}};
    const auto known = pipeline_.module().named_parameters();
    const auto buffers = pipeline_.module().named_buffers();
    const torch::NoGradGuard no_grad;
    for (const StageTensor& entry : tensors.all()) {
      if (!entry.is_on(rank())) continue;
      Tensor here = entry.tensor;
      if (entry.is_parameter)
        version.weights.push_back({known[entry.name], here});
      else
        here.set_data(buffers[entry.name]);
    }
    version.renew();
    const auto begin = model.layers.begin();
    const auto at = [&](int stage) {
      return begin + static_cast<std::ptrdiff_t>(pipeline_.cut()[static_cast<std::size_t>(stage)]);
    };
    version.stage = std::make_unique<Stage>(
        std::vector<Layer>(at(rank()), at(rank() + 1)), tensors.parameters_of(rank()),
        tensors.buffers_of(rank()),
        Stage::Options{.number = rank(),
                       .first = rank() == 0,
                       .last = is_last(),
                       .recompute = options_.recompute,
                       .random = options_.random,
                       .seed = seed_of_replica(options_.seed, options_.data),
                       .device = options_.device});
    return version;
  }

  void share(const LayeredModel& model) {
    const auto known = pipeline_.module().named_parameters();
    const StageTensors tensors(*model.module, model.layers, pipeline_.cut(), spec_);
    for (const StageTensor& entry : tensors.all())
      if (entry.is_parameter && entry.is_shared() && entry.is_on(rank()) &&
          known[entry.name].requires_grad())
        late_.add(known[entry.name], entry.ranks);
  }

  // The micro-batches that go in here.
  std::vector<Tensor> begin_batch(const Tensor& input, const Tensor& target, Optimizer& optimizer) {
    const int micro_batches = spec_.micro_batches;
    for (const Tensor* each : {&input, &target})
      if (each->defined()) require_divisible(*each, micro_batches);
    std::vector<Tensor> inputs, targets;
    if (rank() == 0) inputs = micro_batches_of(input, micro_batches, rank(), "input", "first");
    if (is_last()) targets = micro_batches_of(target, micro_batches, rank(), "target", "last");
    rates_.push_back(rates_of(optimizer));
    if (batches_ == 0)
      executor_.begin(step_);
    else
      executor_.expect(batches_ * micro_batches);
    version_of(batches_).stage->begin(
        step_++, [this, micro_batches, targets = std::move(targets)](const Tensor& output, int i) {
          const Tensor& wanted = targets[static_cast<std::size_t>(i)];
          return loss_(output, wanted.to(options_.device)) * (1.0 / micro_batches);
        });
    return inputs;
  }

  void carry_out(const Schedule& computations, const std::vector<Tensor>& inputs) {
    executor_.carry_out(with_messages(computations, rank(), spec_), inputs);
  }

  // By the gradients of the batch, whose version the next but one is computed with.
  void update(int batch, Optimizer& optimizer) {
    const torch::NoGradGuard no_grad;
    Version& version = version_of(batch);
    for (Version::Weight& weight : version.weights)
      weight.known.mutable_grad() = weight.here.grad();
    pipeline_.average_gradients();
    late_.exchange();
    last_rates_ = std::move(rates_.front());
    rates_.pop_front();
    step_by(last_rates_, optimizer);
    version.renew();
    for (Version::Weight& weight : version.weights)
      if (weight.here.grad().defined()) weight.here.mutable_grad().zero_();
    executor_.end_batch();
  }

  // Weights without a gradient stay as they are.
  void step_by(const std::vector<double>& rates, Optimizer& optimizer) {
    const std::vector<double> usual = rates_of(optimizer);
    set_rates(optimizer, rates);
    optimizer.step();
    set_rates(optimizer, usual);
    for (Tensor& parameter : pipeline_.parameters()) parameter.mutable_grad() = Tensor();
  }

  // Constant after construction.
  const std::unique_ptr<Communicator> owned_;
  Communicator& communicator_;
  const PipelineOptions options_;
  Pipeline pipeline_;  // the weights that the optimizer knows
  std::array<Version, 2> versions_;
  const Pipeline::Loss loss_;
  const PipelineSpec spec_;
  Executor executor_;
  LateGradients late_;

  std::int64_t step_ = 0;
  int batches_ = 0;                        // of this stretch
  double losses_ = 0;                      // of them, on the last rank
  std::deque<std::vector<double>> rates_;  // of those that the optimizer has not stepped for
  std::vector<double> last_rates_;         // that it has
};

StreamingPipeline::StreamingPipeline(Communicator& communicator, const MakeModel& make,
                                     Pipeline::Loss loss, PipelineOptions options)
    : impl_(std::make_unique<Impl>(nullptr, communicator, make, std::move(loss),
                                   std::move(options))) {}

StreamingPipeline::StreamingPipeline(Job& job, const MakeModel& make, Pipeline::Loss loss,
                                     PipelineOptions options) {
  auto communicator = make_communicator(job);
  Communicator& all = *communicator;
  impl_ = std::make_unique<Impl>(std::move(communicator), all, make, std::move(loss),
                                 std::move(options));
}

StreamingPipeline::~StreamingPipeline() = default;

void StreamingPipeline::step(const Tensor& input, const Tensor& target, Optimizer& optimizer) {
  impl_->step(input, target, optimizer);
}
double StreamingPipeline::settle(Optimizer& optimizer) { return impl_->settle(optimizer); }
std::vector<Tensor> StreamingPipeline::parameters() { return impl_->pipeline().parameters(); }
torch::nn::Module& StreamingPipeline::module() { return impl_->pipeline().module(); }
Tensor StreamingPipeline::forward(const Tensor& input) { return impl_->settled().forward(input); }
std::map<std::string, Tensor> StreamingPipeline::gather() { return impl_->settled().gather(); }
PipelineStats StreamingPipeline::stats() const { return impl_->stats(); }
std::string StreamingPipeline::describe() const { return impl_->pipeline().describe(); }

}  // namespace asup::parallel
