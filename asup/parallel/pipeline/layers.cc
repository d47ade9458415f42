#include "asup/parallel/pipeline/layers.h"

#include "asup/parallel/pipeline/weight_gradients.h"

namespace asup::parallel {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

class LinearFunction : public Function<LinearFunction> {
 public:
  // `by_inputs`: the weight is inputs x outputs.
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& weight,
                        const std::optional<Tensor>& bias, bool by_inputs,
                        const WeightGradientsPtr& later) {
    context->save_for_backward({input, weight, bias.value_or(Tensor())});
    context->saved_data["by_inputs"] = by_inputs;
    keep(*context, later);
    return torch::linear(input, by_inputs ? weight.t() : weight, bias);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &input = saved[0], &weight = saved[1], &bias = saved[2], &gradient = gradients[0];
    const bool by_inputs = context->saved_data["by_inputs"].toBool();
    Tensor of_input;
    if (context->needs_input_grad(0)) of_input = gradient.matmul(by_inputs ? weight.t() : weight);
    kept_weight_gradients(*context)->add_linear(input, gradient, weight, bias, by_inputs);
    return {of_input, Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

struct ConvolutionShape {
  std::vector<std::int64_t> stride, padding, dilation;
  std::int64_t groups = 1;
};

class ConvolutionFunction : public Function<ConvolutionFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& weight,
                        const std::optional<Tensor>& bias, const ConvolutionShape& shape,
                        const WeightGradientsPtr& later) {
    context->save_for_backward({input, weight, bias.value_or(Tensor())});
    context->saved_data["stride"] = shape.stride;
    context->saved_data["padding"] = shape.padding;
    context->saved_data["dilation"] = shape.dilation;
    context->saved_data["groups"] = shape.groups;
    keep(*context, later);
    return torch::conv2d(input, weight, bias, shape.stride, shape.padding, shape.dilation,
                         shape.groups);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &input = saved[0], &weight = saved[1], &bias = saved[2], &gradient = gradients[0];
    const ConvolutionShape shape{
        context->saved_data["stride"].toIntVector(), context->saved_data["padding"].toIntVector(),
        context->saved_data["dilation"].toIntVector(), context->saved_data["groups"].toInt()};
    Tensor of_input;
    if (context->needs_input_grad(0))
      of_input = std::get<0>(of(shape, gradient, input, weight, {true, false, false}));
    if (learns(weight) || learns(bias))
      kept_weight_gradients(*context)->add({weight, bias}, [input = input.detach(),
                                                            gradient = gradient.detach(), weight,
                                                            bias, shape] {
        const auto made = of(shape, gradient, input, weight, {false, learns(weight), learns(bias)});
        if (learns(weight)) add_to_gradient(weight, std::get<1>(made));
        if (learns(bias)) add_to_gradient(bias, std::get<2>(made));
      });
    return {of_input, Tensor(), Tensor(), Tensor(), Tensor()};
  }

 private:
  static std::tuple<Tensor, Tensor, Tensor> of(const ConvolutionShape& shape,
                                               const Tensor& gradient, const Tensor& input,
                                               const Tensor& weight, std::array<bool, 3> wanted) {
    return at::convolution_backward(gradient, input, weight, /*bias_sizes=*/{{weight.size(0)}},
                                    shape.stride, shape.padding, shape.dilation,
                                    /*transposed=*/false, /*output_padding=*/{0, 0}, shape.groups,
                                    wanted);
  }
};

class EmbeddingFunction : public Function<EmbeddingFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& weight, const Tensor& indices,
                        const WeightGradientsPtr& later) {
    context->save_for_backward({weight, indices});
    keep(*context, later);
    return torch::embedding(weight, indices);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &weight = saved[0], &indices = saved[1];
    kept_weight_gradients(*context)->add(
        {weight}, [weight, indices, gradient = gradients[0].detach()] {
          add_to_gradient(weight, at::embedding_dense_backward(gradient, indices, weight.size(0),
                                                               /*padding_idx=*/-1,
                                                               /*scale_grad_by_freq=*/false));
        });
    return {Tensor(), Tensor(), Tensor()};
  }
};

// A Function takes no undefined tensor.
std::optional<Tensor> given(const Tensor& bias) {
  return bias.defined() ? std::optional(bias) : std::nullopt;
}

template <std::size_t D>
std::vector<std::int64_t> list(const torch::ExpandingArray<D>& values) {
  return {values->begin(), values->end()};
}

}  // namespace

Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  const WeightGradientsPtr later = weight_gradients_for(weight);
  if (!later) return torch::linear(input, weight, bias);
  return LinearFunction::apply(input, weight, given(bias), false, later);
}

Tensor affine(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  if (const WeightGradientsPtr later = weight_gradients_for(weight))
    return LinearFunction::apply(input, weight, given(bias), true, later);
  std::vector<std::int64_t> shape = input.sizes().vec();
  shape.back() = weight.size(1);
  return torch::addmm(bias, input.flatten(0, -2), weight).view(shape);
}

Tensor embedding(const Tensor& weight, const Tensor& indices) {
  const WeightGradientsPtr later = weight_gradients_for(weight);
  if (!later || !learns(weight)) return torch::embedding(weight, indices);
  return EmbeddingFunction::apply(weight, indices, later);
}

Tensor first_rows(const Tensor& weight, std::int64_t count) {
  if (!weight_gradients_for(weight)) return weight.narrow(0, 0, count);
  return parallel::embedding(weight, torch::arange(count, torch::device(weight.device())));
}

Tensor LinearImpl::forward(const Tensor& input) { return parallel::linear(input, weight, bias); }

Tensor Conv2dImpl::forward(const Tensor& input) {
  const auto* padding = std::get_if<torch::ExpandingArray<2>>(&options.padding());
  const bool plain =
      padding && std::holds_alternative<torch::enumtype::kZeros>(options.padding_mode());
  const WeightGradientsPtr later = weight_gradients_for(weight);
  if (!later || !plain || input.dim() != 4) return torch::nn::Conv2dImpl::forward(input);
  return ConvolutionFunction::apply(input, weight, given(bias),
                                    ConvolutionShape{list(options.stride()), list(*padding),
                                                     list(options.dilation()), options.groups()},
                                    later);
}

Tensor EmbeddingImpl::forward(const Tensor& indices) {
  const bool plain = !options.padding_idx() && !options.max_norm() &&
                     !options.scale_grad_by_freq() && !options.sparse();
  return plain ? parallel::embedding(weight, indices) : torch::nn::EmbeddingImpl::forward(indices);
}

}  // namespace asup::parallel
