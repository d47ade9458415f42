#include "asup/models/task.h"

#include "asup/parallel/tensor/cross_entropy.h"
#include "asup/parallel/tensor/regions.h"

namespace asup::models {

namespace F = torch::nn::functional;

namespace {

// 1 where there is no sample.
std::int64_t predictions_of_a_sample(const torch::Tensor& target) {
  return target.size(0) > 0 ? target.numel() / target.size(0) : 1;
}

}  // namespace

torch::Tensor sum_of_losses(const torch::Tensor& computed, const torch::Tensor& target,
                            double smoothing, const std::optional<CutScores>& cut) {
  const bool is_short = torch::elementSize(computed.scalar_type()) < sizeof(float);
  const torch::Tensor scores = is_short ? computed.to(torch::kFloat) : computed;
  if (cut && target.is_floating_point())
    return sum_of_losses(parallel::gather_from_region(scores, cut->classes, *cut->group), target,
                         smoothing);
  if (cut)
    return parallel::parallel_cross_entropy(scores, target, cut->classes, *cut->group, smoothing)
               .sum() /
           static_cast<double>(predictions_of_a_sample(target));
  const auto sum = F::CrossEntropyFuncOptions().reduction(torch::kSum).label_smoothing(smoothing);
  if (target.is_floating_point()) return F::cross_entropy(scores, target, sum);
  const torch::Tensor loss = F::cross_entropy(scores.flatten(0, -2), target.flatten(), sum);
  return loss / static_cast<double>(predictions_of_a_sample(target));
}

double sum_of_right(const torch::Tensor& predicted, const torch::Tensor& target) {
  const auto right = predicted.eq(target).sum().item<std::int64_t>();
  return static_cast<double>(right) / static_cast<double>(predictions_of_a_sample(target));
}

double sum_among_highest(const torch::Tensor& scores, const torch::Tensor& target,
                         std::int64_t count) {
  const torch::Tensor highest = std::get<1>(scores.topk(count, /*dim=*/-1));
  return static_cast<double>(highest.eq(target.unsqueeze(-1)).sum().item<std::int64_t>());
}

}  // namespace asup::models
