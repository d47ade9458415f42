#include "asup/parallel/tensor/cross_entropy.h"

#include "asup/base/error.h"
#include "asup/parallel/tensor/saved_group.h"
#include "asup/parallel/tensor_cut.h"

namespace asup::parallel {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kLoss = "a loss over classes of all ranks";

// loss = log(sum over j of exp(s_j)) - (1 - smoothing) s_target - smoothing / classes * sum of s_j.
// The largest score is taken off all of them first.
struct CrossEntropy : torch::autograd::Function<CrossEntropy> {
  static Tensor forward(AutogradContext* context, const Tensor& scores, const Tensor& target,
                        std::int64_t classes, const TensorGroup& group, double smoothing) {
    const std::int64_t predictions = scores.size(0);
    Tensor largest = group.staging({predictions}, scores.scalar_type());
    largest.copy_(scores.amax(-1));
    group.all_reduce(largest, kLoss, ReduceOp::max);
    const Tensor shifted = scores - largest.unsqueeze(-1);

    const IndexRange range = part_of(classes, group.rank(), group.size());
    const Tensor local = target - range.begin;
    const Tensor elsewhere = local.lt(0).logical_or(local.ge(range.size));
    const Tensor own = local.masked_fill(elsewhere, 0).unsqueeze(-1);
    const Tensor chosen = shifted.gather(-1, own).squeeze(-1).masked_fill(elsewhere, 0);
    const Tensor spread = smoothing > 0 ? shifted.sum(-1) : Tensor();
    Tensor softmax = shifted.exp_();

    const Tensor sums = group.staging({smoothing > 0 ? 3 : 2, predictions}, scores.scalar_type());
    sums[0].copy_(softmax.sum(-1));
    sums[1].copy_(chosen);
    if (smoothing > 0) sums[2].copy_(spread);
    group.all_reduce(sums, kLoss);
    Tensor loss = sums[0].log() - (1 - smoothing) * sums[1];
    if (smoothing > 0) loss -= sums[2] * (smoothing / static_cast<double>(classes));

    softmax.div_(sums[0].unsqueeze(-1));
    context->save_for_backward({softmax, own, elsewhere});
    context->saved_data["classes"] = classes;
    context->saved_data["smoothing"] = smoothing;
    return loss;
  }

  // ds_j = softmax_j - (1 - smoothing) [j is the target] - smoothing / classes
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    refuse_second_derivative("a loss over classes of all ranks");
    const auto saved = context->get_saved_variables();
    const Tensor &softmax = saved[0], &own = saved[1], &elsewhere = saved[2];
    const double smoothing = context->saved_data["smoothing"].toDouble();
    const auto classes = static_cast<double>(context->saved_data["classes"].toInt());
    const Tensor taken = torch::full(own.sizes(), smoothing - 1, softmax.options())
                             .masked_fill_(elsewhere.unsqueeze(-1), 0);
    Tensor ds = softmax.scatter_add(-1, own, taken);
    if (smoothing > 0) ds.sub_(smoothing / classes);
    ds.mul_(gradients[0].unsqueeze(-1));
    return {ds, {}, {}, {}, {}};
  }
};

}  // namespace

Tensor parallel_cross_entropy(const Tensor& scores, const Tensor& target, std::int64_t classes,
                              const TensorGroup& group, double smoothing) {
  const std::int64_t own = part_of(classes, group.rank(), group.size()).size;
  require(scores.dim() >= 1 && scores.size(-1) == own,
          "rank {} of {} has the scores of {} classes, where its part of {} is {}", group.rank(),
          group.size(), scores.dim() > 0 ? scores.size(-1) : 0, classes, own);
  require(target.scalar_type() == torch::kLong &&
              target.sizes() == scores.sizes().slice(0, scores.dim() - 1),
          "targets must be numbers of classes, one for each prediction");
  if (target.numel() > 0) {
    const auto least = target.min().item<std::int64_t>(), most = target.max().item<std::int64_t>();
    require(least >= 0 && most < classes, "a target is {}, which is none of {} classes",
            least < 0 ? least : most, classes);
  }
  const Tensor flat = scores.flatten(0, -2);
  return CrossEntropy::apply(flat, target.flatten(), classes, group, smoothing)
      .view(target.sizes());
}

}  // namespace asup::parallel
