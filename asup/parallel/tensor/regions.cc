#include "asup/parallel/tensor/regions.h"

#include "asup/base/error.h"
#include "asup/parallel/tensor/saved_group.h"
#include "asup/parallel/tensor_cut.h"

namespace asup::parallel {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Tensor summed(const Tensor& input, const TensorGroup& group, const char* what) {
  const Tensor sum = group.staging(input.sizes(), input.scalar_type());
  sum.copy_(input);
  group.all_reduce(sum, what);
  return sum.clone();
}

Tensor own_part(const Tensor& whole, const TensorGroup& group) {
  const IndexRange range = part_of(whole.size(-1), group.rank(), group.size());
  return whole.narrow(-1, range.begin, range.size).contiguous();
}

struct CopyToRegion : torch::autograd::Function<CopyToRegion> {
  static Tensor forward(AutogradContext* context, const Tensor& input, const TensorGroup& group) {
    context->saved_data["group"] = held(group);
    return input;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    refuse_second_derivative("copy_to_region");
    return {summed(gradients[0], held_group(context->saved_data["group"]),
                   "the gradient of a tensor-parallel region"),
            {}};
  }
};

struct ReduceFromRegion : torch::autograd::Function<ReduceFromRegion> {
  static Tensor forward(AutogradContext*, const Tensor& input, const TensorGroup& group) {
    return summed(input, group, "the output of a tensor-parallel region");
  }
  static variable_list backward(AutogradContext*, variable_list gradients) {
    return {gradients[0], {}};
  }
};

struct SplitToRegion : torch::autograd::Function<SplitToRegion> {
  static Tensor forward(AutogradContext* context, const Tensor& input, const TensorGroup& group) {
    context->saved_data["group"] = held(group);
    context->saved_data["whole"] = input.size(-1);
    return own_part(input, group);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    refuse_second_derivative("split_to_region");
    return {held_group(context->saved_data["group"])
                .all_gather_last(gradients[0], context->saved_data["whole"].toInt(),
                                 "the gradient of a tensor-parallel region"),
            {}};
  }
};

struct GatherFromRegion : torch::autograd::Function<GatherFromRegion> {
  static Tensor forward(AutogradContext* context, const Tensor& part, std::int64_t whole,
                        const TensorGroup& group) {
    context->saved_data["group"] = held(group);
    return group.all_gather_last(part, whole, "the output of a tensor-parallel region");
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    return {own_part(gradients[0], held_group(context->saved_data["group"])), {}, {}};
  }
};

}  // namespace

Tensor copy_to_region(const Tensor& input, const TensorGroup& group) {
  return CopyToRegion::apply(input, group);
}

Tensor reduce_from_region(const Tensor& input, const TensorGroup& group) {
  return ReduceFromRegion::apply(input, group);
}

Tensor split_to_region(const Tensor& input, const TensorGroup& group) {
  require(input.dim() > 0 && input.size(-1) >= group.size(),
          "the last of {} dimensions is too short for a part on each of {} ranks", input.dim(),
          group.size());
  return SplitToRegion::apply(input, group);
}

Tensor gather_from_region(const Tensor& part, std::int64_t whole, const TensorGroup& group) {
  const std::int64_t own = part_of(whole, group.rank(), group.size()).size;
  require(part.dim() > 0 && part.size(-1) == own,
          "rank {} of {} has {} of {} columns to gather, and its part is {}", group.rank(),
          group.size(), part.dim() > 0 ? part.size(-1) : 0, whole, own);
  return GatherFromRegion::apply(part, whole, group);
}

}  // namespace asup::parallel
