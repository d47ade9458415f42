#include "asup/sync/model/sync_batch_norm.h"

#include "asup/base/error.h"
#include "asup/sync/model/device.h"
#include "asup/sync/model/tensors.h"

namespace asup {
namespace {

using torch::Tensor;
using MaybeTensor = std::optional<torch::Tensor>;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Of one channel's values, on all ranks together.
struct Statistics {
  Tensor mean, variance;  // f64
  double count;
};

// On the host.
Tensor sum_over_ranks(Communicator& communicator, const Tensor& values) {
  const Tensor sums = sync::on_host(values);
  communicator.all_reduce(asup::buffer_of(sums), ReduceOp::sum)
      .or_throw("synchronized batch normalization");
  return sums;
}

// [sums, sums of squares, count]. Sums of squares in f64, or large means would drown variances.
Tensor local_sums(const Tensor& input) {
  const std::int64_t channels = input.size(1);
  const std::int64_t count = input.numel() / std::max<std::int64_t>(channels, 1);
  Tensor sums = torch::zeros({2 * channels + 1}, input.options().dtype(torch::kFloat64));
  sums[-1] = count;
  if (count == 0) return sums;
  // On the CPU statistics would have the type of the input, and overflow in 16 bits.
  const bool is_short = torch::elementSize(input.scalar_type()) < sizeof(float);
  auto [mean, variance] = torch::batch_norm_update_stats(
      input.is_cpu() && is_short ? input.to(torch::kFloat) : input, {}, {}, 0.0);
  mean = mean.to(torch::kFloat64);
  sums.narrow(0, 0, channels) = mean * count;
  sums.narrow(0, channels, channels) = (variance.to(torch::kFloat64) + mean * mean) * count;
  return sums;
}

Statistics global_statistics(Communicator& communicator, const Tensor& input) {
  const std::int64_t channels = input.size(1);
  const Tensor on_host = sum_over_ranks(communicator, local_sums(input));
  const double count = on_host[-1].item<double>();
  check(count > 1,
        "batch normalization in training needs more than one value a channel, and all "
        "ranks together have {}",
        count);
  const Tensor sums = on_host.to(input.device());
  const Tensor mean = sums.narrow(0, 0, channels) / count;
  const Tensor variance = sums.narrow(0, channels, channels) / count - mean * mean;
  return {mean, variance.clamp_min(0), count};
}

// A per-channel vector as it applies to `input`.
Tensor along_channels(const Tensor& vector, const Tensor& input) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(input.dim()), 1);
  shape[1] = vector.numel();
  return vector.to(input.scalar_type()).view(shape);
}

struct Held : torch::CustomClassHolder {
  explicit Held(std::shared_ptr<Communicator> held) : communicator(std::move(held)) {}
  std::shared_ptr<Communicator> communicator;
};

// y = (x - mean) / sqrt(variance + eps) * weight + bias, where mean and variance depend on all x.
struct Normalize : torch::autograd::Function<Normalize> {
  static Tensor forward(AutogradContext* context, const Tensor& input, const MaybeTensor& weight,
                        const MaybeTensor& bias, const Tensor& mean, const Tensor& variance,
                        double count, double eps, std::shared_ptr<Communicator> communicator) {
    context->save_for_backward({input, weight.value_or(Tensor()), mean, variance});
    context->saved_data["count"] = count;
    context->saved_data["eps"] = eps;
    context->saved_data["communicator"] =
        c10::IValue::make_capsule(c10::make_intrusive<Held>(std::move(communicator)));
    if (input.numel() == 0) return torch::empty_like(input);
    return std::get<0>(
        torch::native_batch_norm(input, weight, bias, mean, variance, false, 0.0, eps));
  }

  // With x^ the normalized input, n the count and sums over all ranks:
  //   dx = weight / sqrt(variance + eps) * (dy - sum(dy) / n - x^ * sum(dy * x^) / n)
  // whose first term, and the sums of this rank, are those of constant statistics.
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    check(!torch::GradMode::is_enabled(),
          "synchronized batch normalization has no second derivative: call backward without "
          "create_graph");
    const auto saved = context->get_saved_variables();
    const Tensor &input = saved[0], &weight = saved[1], &mean = saved[2], &variance = saved[3];
    const double count = context->saved_data["count"].toDouble();
    const double eps = context->saved_data["eps"].toDouble();

    auto [dx, dweight, dbias] =
        with_constant_statistics(gradients[0], input, weight, mean, variance, eps);
    const std::int64_t channels = input.size(1);
    const auto held = context->saved_data["communicator"].toCapsule();
    const Tensor sums = sum_over_ranks(*static_cast<Held&>(*held).communicator,
                                       torch::cat({dbias, dweight}).to(torch::kFloat64))
                            .to(input.device());

    const Tensor scale = (variance.to(torch::kFloat64) + eps).rsqrt();
    const Tensor factor = weight.defined() ? scale * weight.to(torch::kFloat64) : scale;
    const Tensor slope = -factor * scale * sums.narrow(0, channels, channels) / count;
    const Tensor shift = -factor * sums.narrow(0, 0, channels) / count - slope * mean;
    dx.add_(along_channels(shift, input)).addcmul_(input, along_channels(slope, input));
    if (!weight.defined()) dweight = dbias = Tensor();
    return {dx, dweight, dbias, {}, {}, {}, {}, {}};
  }

  static std::tuple<Tensor, Tensor, Tensor> with_constant_statistics(
      const Tensor& dy, const Tensor& input, const Tensor& weight, const Tensor& mean,
      const Tensor& variance, double eps) {
    if (input.numel() == 0)
      return {torch::empty_like(input), torch::zeros_like(mean), torch::zeros_like(mean)};
    // Statistics of this batch alone: there are none, and GPUs want that said by empty tensors.
    const Tensor none = torch::empty({0}, mean.options());
    return torch::native_batch_norm_backward(dy.contiguous(input.suggest_memory_format()), input,
                                             weight, mean, variance, none, none, false, eps,
                                             {true, true, true});
  }
};

}  // namespace

SyncBatchNormImpl::SyncBatchNormImpl(const SyncBatchNormOptions& options) : NormImplBase(options) {
  require(options.communicator() != nullptr,
          "SyncBatchNorm needs a communicator: make one for it from the job");
}

void SyncBatchNormImpl::_check_input_dim(const Tensor& input) {
  check(input.dim() >= 2 && input.dim() <= 5 && input.size(1) == options.num_features(),
        "SyncBatchNorm of {} channels needs an input N×{}×…, and got {}", options.num_features(),
        options.num_features(), asup::describe(input));
}

Tensor SyncBatchNormImpl::forward(const Tensor& input) {
  _check_input_dim(input);
  if (!is_training())
    return torch::batch_norm(input, weight, bias, running_mean, running_var,
                             !options.track_running_stats(), 0.0, options.eps(), false);
  const auto [mean, variance, count] = global_statistics(*options.communicator(), input.detach());
  update_running_statistics(mean, variance, count);
  // 16-bit inputs keep their statistics in f32, as their weights are.
  const auto type = weight.defined()           ? weight.scalar_type()
                    : input.element_size() < 4 ? torch::kFloat32
                                               : input.scalar_type();
  const auto maybe = [](const Tensor& t) { return t.defined() ? MaybeTensor(t) : std::nullopt; };
  return Normalize::apply(input, maybe(weight), maybe(bias), mean.to(type), variance.to(type),
                          count, options.eps(), options.communicator());
}

void SyncBatchNormImpl::update_running_statistics(const Tensor& mean, const Tensor& variance,
                                                  double count) {
  if (!options.track_running_stats()) return;
  torch::NoGradGuard no_grad;
  num_batches_tracked += 1;
  const double share =
      options.momentum() ? *options.momentum() : 1.0 / num_batches_tracked.item<double>();
  running_mean.lerp_(mean.to(running_mean.scalar_type()), share);
  const Tensor unbiased = variance * (count / (count - 1));
  running_var.lerp_(unbiased.to(running_var.scalar_type()), share);
}

void SyncBatchNormImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "asup::SyncBatchNorm(" << options.num_features()
         << ", eps=" << options.eps() << ", momentum=";
  if (options.momentum())
    stream << *options.momentum();
  else
    stream << "none";
  stream << ", affine=" << options.affine()
         << ", track_running_stats=" << options.track_running_stats() << ")";
}

}  // namespace asup
