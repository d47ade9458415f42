#include "asup/sync/gradients/finite_steps.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/kernels/finite.h"

namespace asup::sync {
namespace {

using torch::Tensor;

std::vector<Tensor> those_of(const std::vector<NamedTensor>& buffers, bool floating) {
  std::vector<Tensor> tensors;
  for (const auto& [name, tensor] : buffers)
    if (tensor.is_floating_point() == floating) tensors.push_back(tensor.detach());
  return tensors;
}

bool kernels_read(const Tensor& tensor) {
  return tensor.is_cpu() && tensor.scalar_type() == torch::kFloat &&
         tensor.is_non_overlapping_and_dense();
}

// A GPU is asked once for all of them: sums in f64 of finite f32 are finite.
bool all_finite(const std::vector<NamedTensor>& parameters) {
  torch::NoGradGuard no_grad;
  std::vector<Tensor> others, sums;
  for (const auto& [name, parameter] : parameters) {
    const Tensor& gradient = parameter.grad();
    if (!gradient.defined()) continue;
    if (!kernels_read(gradient)) {
      others.push_back(gradient);
      sums.push_back(gradient.sum(torch::kDouble));
    } else if (!is_finite(gradient)) {
      return false;
    }
  }
  if (others.empty() || std::isfinite(torch::stack(sums).sum().item<double>())) return true;
  return std::all_of(others.begin(), others.end(), is_finite);
}

// "fc.weight and 2 others". Those that were exchanged may not be there any more: undefined, or
// (GradientCollector::release()) a single element.
std::string name_those_not_finite(const std::vector<NamedTensor>& parameters) {
  std::string first;
  int others = -1;
  for (const auto& [name, parameter] : parameters) {
    const Tensor& gradient = parameter.grad();
    const bool has_gone = gradient.defined() && !gradient.is_non_overlapping_and_dense();
    if (!gradient.defined() || has_gone || is_finite(gradient)) continue;
    if (++others == 0) first = name;
  }
  if (others < 0) return "some parameters";
  if (others == 0) return first;
  return fmt::format("{} and {} other{}", first, others, others == 1 ? "" : "s");
}

}  // namespace

std::optional<std::string> too_many_skipped(const ReplicaStats& stats) {
  if (stats.skipped_in_succession >= kMostSkippedSteps)
    return fmt::format("{} steps in succession", kMostSkippedSteps);
  const std::uint64_t seen = std::min(stats.steps, kLastSteps);
  if (stats.skipped_in_succession == 0 || seen < kFewestSteps || 2 * stats.skipped_lately <= seen)
    return std::nullopt;
  return fmt::format("{} of the last {} steps", stats.skipped_lately, seen);
}

bool is_finite(const Tensor& tensor) {
  if (kernels_read(tensor))
    return kernels::count_not_finite(tensor.const_data_ptr<float>(),
                                     static_cast<std::size_t>(tensor.numel())) == 0;
  return tensor.isfinite().all().item<bool>();
}

FiniteSteps::FiniteSteps(const TrainedModel& model, NonFinite policy, bool warns)
    : model_(model),
      policy_(policy),
      warns_(warns),
      floating_{those_of(model.buffers(), true), {}},
      others_{those_of(model.buffers(), false), {}} {
  keep_buffers();
}

void FiniteSteps::found_norm(double norm) { known_finite_ = std::isfinite(norm); }

bool FiniteSteps::admits(std::uint64_t step) {
  const bool known = std::exchange(known_finite_, false);
  if (policy_ == NonFinite::apply) return true;
  return admits(step, known || all_finite(model_.trainable()));
}

bool FiniteSteps::admits(std::uint64_t step, bool finite) {
  if (!finite && policy_ == NonFinite::fatal)  // only then all gradients are read once more
    throw Error(fmt::format(
        "the gradients of step {} are infinite or NaN: those of {}. A lower learning rate, a "
        "warm-up or clipping may help; non-finite = skip leaves such steps out",
        step, name_those_not_finite(model_.trainable())));
  return count(step, finite);
}

// Of many that are left out, people are told of the first, the second, the fourth and so on.
bool FiniteSteps::count(std::uint64_t step, bool finite) {
  const bool admitted = finite || policy_ == NonFinite::apply;
  remember(!admitted);
  if (admitted) {
    in_succession_ = 0;
    keep_buffers();
    return true;
  }
  ++skipped_;
  ++in_succession_;
  if (warns_ && std::has_single_bit(skipped_))
    log().warn("the gradients of step {} are infinite or NaN: it is left out, and {} so far", step,
               skipped_ == 1 ? "it is the only one" : fmt::format("{} steps are", skipped_));
  mend_buffers();
  keep_buffers();
  return false;
}

void FiniteSteps::remember(bool skipped) {
  auto place = last_[counted_++ % kLastSteps];
  lately_ += skipped;
  lately_ -= place;
  place = skipped;
}

void FiniteSteps::Buffers::keep() {
  if (tensors.empty()) return;
  if (kept.empty())
    for (const Tensor& tensor : tensors) kept.push_back(torch::empty_like(tensor));
  at::_foreach_copy_(kept, tensors, /*non_blocking=*/true);
}

void FiniteSteps::Buffers::take_back() {
  if (!kept.empty()) at::_foreach_copy_(tensors, kept, /*non_blocking=*/true);
}

void FiniteSteps::keep_buffers() {
  if (policy_ != NonFinite::skip) return;
  torch::NoGradGuard no_grad;
  floating_.keep();
  others_.keep();
}

void FiniteSteps::take_buffers_back() {
  torch::NoGradGuard no_grad;
  floating_.take_back();
  others_.take_back();
}

void FiniteSteps::mend_buffers() {
  torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < floating_.kept.size(); ++i)
    if (!is_finite(floating_.tensors[i])) floating_.tensors[i].copy_(floating_.kept[i]);
}

}  // namespace asup::sync
