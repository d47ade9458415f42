#include "asup/parallel/tensor/linear.h"

#include <ATen/autocast_mode.h>

#include <cmath>

#include "asup/base/error.h"
#include "asup/parallel/pipeline/weight_gradients.h"
#include "asup/parallel/tensor/regions.h"
#include "asup/parallel/tensor/saved_group.h"

namespace asup::parallel {
namespace {

using torch::Tensor;
using MaybeTensor = std::optional<torch::Tensor>;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kOutput = "the output of a row-parallel layer";
constexpr const char* kGradient = "the gradient of a column-parallel layer's input";

MaybeTensor maybe(const Tensor& tensor) {
  return tensor.defined() ? MaybeTensor(tensor) : std::nullopt;
}

// Inputs × outputs, however the weight lies.
Tensor as_matrix(const Tensor& weight, bool transposed) { return transposed ? weight : weight.t(); }

bool is_autocast(const Tensor& weight) {
  return at::autocast::is_autocast_enabled(weight.device().type());
}

// Under Autocast, layers compute in its type, as torch's do: so they add up in it, too.
Tensor by_autocast(const Tensor& tensor) {
  if (!tensor.defined() || !is_autocast(tensor)) return tensor;
  const auto device = tensor.device().type();
  return at::autocast::cached_cast(at::autocast::get_autocast_dtype(device), tensor, device);
}

std::vector<std::int64_t> with_last(torch::IntArrayRef shape, std::int64_t last) {
  std::vector<std::int64_t> result = shape.vec();
  result.back() = last;
  return result;
}

// What both layers have in common: x is inputs and dy gradients of outputs, a row each.
void save(AutogradContext& context, const Tensor& x, const Tensor& weight, const MaybeTensor& bias,
          bool transposed, torch::IntArrayRef shape, const WeightGradientsPtr& later) {
  context.save_for_backward({x, weight, bias.value_or(Tensor())});
  context.saved_data["transposed"] = transposed;
  context.saved_data["shape"] = shape.vec();
  keep(context, later);
}

struct OfParameters {
  Tensor dw, db;
};

// Undefined where nobody wants them, and where a pipeline computes them later.
OfParameters gradients_of_parameters(AutogradContext& context, const Tensor& dy) {
  const auto saved = context.get_saved_variables();
  const Tensor &x = saved[0], &weight = saved[1], &bias = saved[2];
  const bool transposed = context.saved_data["transposed"].toBool();
  if (const WeightGradientsPtr later = kept_weight_gradients(context)) {
    later->add_linear(x, dy, weight, bias, transposed);
    return {};
  }
  OfParameters of;
  if (context.needs_input_grad(1)) of.dw = transposed ? x.t().mm(dy) : dy.t().mm(x);
  // A bias that there is not is no input of the node.
  if (bias.defined() && context.needs_input_grad(2)) of.db = dy.sum(0);
  return of;
}

// y = x W + b, where this rank has some columns of W. dx = dy W^T is the sum over ranks, and
// dW = x^T dy is computed while it travels.
struct ColumnLinear : torch::autograd::Function<ColumnLinear> {
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& weight,
                        const MaybeTensor& bias, const TensorGroup& group, bool transposed,
                        const WeightGradientsPtr& later) {
    const Tensor x = input.flatten(0, -2), w = as_matrix(weight, transposed);
    save(*context, x, weight, bias, transposed, input.sizes(), later);
    context->saved_data["group"] = held(group);
    const Tensor y = bias ? torch::addmm(*bias, x, w) : x.mm(w);
    return y.view(with_last(input.sizes(), w.size(1)));
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    refuse_second_derivative("a column-parallel layer");
    const auto saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1];
    const TensorGroup group = held_group(context->saved_data["group"]);
    const bool transposed = context->saved_data["transposed"].toBool();
    const Tensor dy = gradients[0].flatten(0, -2);

    Tensor sum, dx;
    Work work;
    if (context->needs_input_grad(0)) {
      sum = group.staging(x.sizes(), x.scalar_type());
      torch::mm_out(sum, dy, as_matrix(weight, transposed).t());
      work = group.start_all_reduce(sum);
    }
    const auto [dw, db] = gradients_of_parameters(*context, dy);
    group.wait(work, kGradient);
    if (sum.defined()) dx = sum.clone().view(context->saved_data["shape"].toIntVector());
    return {dx, dw, db, {}, {}, {}};
  }
};

// y = sum over ranks of x W, + b, where this rank has some rows of W, and x for these.
struct RowLinear : torch::autograd::Function<RowLinear> {
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& weight,
                        const MaybeTensor& bias, const TensorGroup& group, bool transposed,
                        const WeightGradientsPtr& later) {
    const Tensor x = input.flatten(0, -2), w = as_matrix(weight, transposed);
    save(*context, x, weight, bias, transposed, input.sizes(), later);
    Tensor sum = group.staging({x.size(0), w.size(1)}, x.scalar_type());
    torch::mm_out(sum, x, w);
    group.all_reduce(sum, kOutput);
    const Tensor y = bias ? sum + *bias : sum.clone();
    return y.view(with_last(input.sizes(), w.size(1)));
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Tensor weight = context->get_saved_variables()[1];
    const bool transposed = context->saved_data["transposed"].toBool();
    const Tensor dy = gradients[0].flatten(0, -2);
    Tensor dx;
    if (context->needs_input_grad(0))
      dx =
          dy.mm(as_matrix(weight, transposed).t()).view(context->saved_data["shape"].toIntVector());
    const auto [dw, db] = gradients_of_parameters(*context, dy);
    return {dx, dw, db, {}, {}, {}};
  }
};

// As torch::nn::LinearImpl::reset_parameters() has them.
void fill_as_torch(torch::Tensor weight, torch::Tensor bias, bool transposed) {
  const Tensor matrix = transposed ? weight.t() : weight;  // outputs × inputs
  torch::nn::init::kaiming_uniform_(matrix, std::sqrt(5));
  if (!bias.defined()) return;
  const double bound = 1 / std::sqrt(static_cast<double>(matrix.size(1)));
  torch::nn::init::uniform_(bias, -bound, bound);
}

FirstWeights first_weights_of(const FirstWeights& wanted, bool transposed) {
  if (wanted) return wanted;
  return [transposed](Tensor weight, Tensor bias) { fill_as_torch(weight, bias, transposed); };
}

void require_enough(const char* what, std::int64_t features, const TensorGroup& group) {
  require(features >= group.size(),
          "{} features cannot be cut over {} ranks: {}. Make the layer wider, or the group smaller",
          features, group.size(), what);
}

void check_input(const char* layer, const Tensor& input, std::int64_t features,
                 const Tensor& weight) {
  require(input.dim() >= 2 && input.size(-1) == features,
          "{} takes … × {} on this rank, and got {} dimensions, the last of {}", layer, features,
          input.dim(), input.dim() > 0 ? input.size(-1) : 0);
  const bool one_type = input.scalar_type() == weight.scalar_type() || is_autocast(weight);
  require(one_type && input.device() == weight.device(),
          "{} has a weight of {} on {}, and got an input of {} on {}: both must be of one kind: "
          "cast the input, or compute under Autocast",
          layer, c10::toString(weight.scalar_type()), weight.device().str(),
          c10::toString(input.scalar_type()), input.device().str());
}

// Gives a layer its part of what fills the whole.
void fill_parts(const FirstWeights& fill, std::vector<std::int64_t> shape, const TensorCut& cut,
                const TensorGroup& group, Tensor& weight, Tensor& bias, bool cuts_bias) {
  torch::NoGradGuard no_grad;
  const std::int64_t outputs = cuts_bias ? cut.whole : bias.defined() ? bias.numel() : 0;
  const Tensor whole = torch::empty(shape, weight.options());
  const Tensor whole_bias = bias.defined() ? torch::empty({outputs}, bias.options()) : Tensor();
  fill(whole, whole_bias);
  weight.copy_(part_of(whole, cut, group.rank(), group.size()));
  if (!bias.defined()) return;
  const TensorCut of_bias{0, cut.whole, cut.blocks};
  bias.copy_(cuts_bias ? part_of(whole_bias, of_bias, group.rank(), group.size()) : whole_bias);
}

std::vector<std::int64_t> shape_of(std::int64_t inputs, std::int64_t outputs, bool transposed) {
  return transposed ? std::vector{inputs, outputs} : std::vector{outputs, inputs};
}

}  // namespace

ColumnParallelLinearImpl::ColumnParallelLinearImpl(ColumnParallelLinearOptions given)
    : options(std::move(given)) {
  const TensorGroup& group = options.group();
  require_enough("each rank of a column-parallel layer has a part of the outputs",
                 options.out_features() / options.blocks(), group);
  require(options.out_features() % options.blocks() == 0,
          "{} outputs are not {} blocks of equal size", options.out_features(), options.blocks());
  require(!options.gather_output() || options.blocks() == 1,
          "a column-parallel layer of {} blocks cannot gather its outputs: use those of this rank",
          options.blocks());
  const TensorCut cut{0, options.out_features(), options.blocks()};
  const std::int64_t own = cut.size(group.rank(), group.size());
  weight = register_parameter(
      "weight", torch::empty(shape_of(options.in_features(), own, options.transposed())));
  if (options.bias()) bias = register_parameter("bias", torch::empty({own}));
  initialise(first_weights_of(options.first_weights(), options.transposed()));
}

void ColumnParallelLinearImpl::initialise(const FirstWeights& fill) {
  fill_parts(fill, shape_of(options.in_features(), options.out_features(), options.transposed()),
             cuts().at("weight"), options.group(), weight, bias, /*cuts_bias=*/true);
}

std::map<std::string, TensorCut> ColumnParallelLinearImpl::cuts() const {
  std::map<std::string, TensorCut> cuts{
      {"weight",
       TensorCut{options.transposed() ? 1 : 0, options.out_features(), options.blocks()}}};
  if (options.bias()) cuts["bias"] = {0, options.out_features(), options.blocks()};
  return cuts;
}

Tensor ColumnParallelLinearImpl::forward(const Tensor& input) {
  check_input("a column-parallel layer", input, options.in_features(), weight);
  const Tensor part =
      column_parallel_linear(input, weight, bias, options.group(), options.transposed());
  if (!options.gather_output()) return part;
  return gather_from_region(part, options.out_features(), options.group());
}

void ColumnParallelLinearImpl::pretty_print(std::ostream& stream) const {
  stream << "asup::parallel::ColumnParallelLinear(" << options.in_features() << ", "
         << options.out_features() << ", rank " << options.group().rank() << " of "
         << options.group().size() << ")";
}

RowParallelLinearImpl::RowParallelLinearImpl(RowParallelLinearOptions given)
    : options(std::move(given)) {
  const TensorGroup& group = options.group();
  require_enough("each rank of a row-parallel layer has a part of the inputs",
                 options.in_features(), group);
  const std::int64_t own = TensorCut{0, options.in_features()}.size(group.rank(), group.size());
  weight = register_parameter(
      "weight", torch::empty(shape_of(own, options.out_features(), options.transposed())));
  if (options.bias()) bias = register_parameter("bias", torch::empty({options.out_features()}));
  initialise(first_weights_of(options.first_weights(), options.transposed()));
}

void RowParallelLinearImpl::initialise(const FirstWeights& fill) {
  fill_parts(fill, shape_of(options.in_features(), options.out_features(), options.transposed()),
             cuts().at("weight"), options.group(), weight, bias, /*cuts_bias=*/false);
}

std::map<std::string, TensorCut> RowParallelLinearImpl::cuts() const {
  return {{"weight", TensorCut{options.transposed() ? 0 : 1, options.in_features()}}};
}

Tensor RowParallelLinearImpl::forward(const Tensor& input) {
  const Tensor part = options.split_input() ? split_to_region(input, options.group()) : input;
  check_input("a row-parallel layer", part, weight.size(options.transposed() ? 0 : 1), weight);
  return row_parallel_linear(part, weight, bias, options.group(), options.transposed());
}

void RowParallelLinearImpl::pretty_print(std::ostream& stream) const {
  stream << "asup::parallel::RowParallelLinear(" << options.in_features() << ", "
         << options.out_features() << ", rank " << options.group().rank() << " of "
         << options.group().size() << ")";
}

Tensor column_parallel_linear(const Tensor& input, const Tensor& weight, const Tensor& bias,
                              const TensorGroup& group, bool transposed) {
  return ColumnLinear::apply(by_autocast(input), by_autocast(weight), maybe(by_autocast(bias)),
                             group, transposed, weight_gradients_for(weight));
}

Tensor row_parallel_linear(const Tensor& input, const Tensor& weight, const Tensor& bias,
                           const TensorGroup& group, bool transposed) {
  return RowLinear::apply(by_autocast(input), by_autocast(weight), maybe(by_autocast(bias)), group,
                          transposed, weight_gradients_for(weight));
}

}  // namespace asup::parallel
