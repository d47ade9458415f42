#include "asup/sync/server/coded_traffic.h"

#include "asup/base/seed.h"
#include "asup/kernels/finite.h"

namespace asup::sync {
namespace {

constexpr float kMostOfF16 = 65504;

}  // namespace

CodedTraffic::CodedTraffic(kernels::Code code, bool feedback, const Buckets& buckets,
                           const std::vector<NamedTensor>& shared)
    : code_(code) {
  if (feedback) residuals_.emplace(buckets, shared);
}

void CodedTraffic::begin_step(std::uint64_t samples) {
  if (residuals_ && samples > 0) residuals_->set_unit(1 / static_cast<double>(samples));
}

void CodedTraffic::end_step(bool applied) {
  ++exchanges_;
  if (residuals_) residuals_->end_step(applied);
}

kernels::Encoding CodedTraffic::encoding(std::size_t bucket) const {
  if (residuals_) return {.carried = residuals_->carried(bucket), .lost = residuals_->lost(bucket)};
  return {.noise = seed_of(exchanges_)};
}

std::uint64_t CodedTraffic::count_made_infinite(const float* data, std::size_t count) const {
  return code_ == kernels::Code::f16 && kernels::largest_magnitude(data, count) > kMostOfF16 ? 1
                                                                                             : 0;
}

ReplicaState CodedTraffic::state(const std::vector<NamedTensor>& known) const {
  const auto unit = torch::tensor({residuals_ ? residuals_->unit() : 0.0}, torch::kFloat64);
  const auto exchanges = torch::tensor({static_cast<std::int64_t>(exchanges_)}, torch::kInt64);
  ReplicaState state{.common = {{"exchanges", exchanges}, {"unit of what was lost", unit}},
                     .own = known};
  state.own.push_back({"unit of what was lost", unit.clone()});
  if (residuals_) state.parts = residuals_->tensors();
  return state;
}

void CodedTraffic::restore(const ReplicaState& state, const std::vector<NamedTensor>& known) {
  torch::NoGradGuard no_grad;
  exchanges_ = static_cast<std::uint64_t>(state.common[0].tensor.item<std::int64_t>());
  for (std::size_t i = 0; i < known.size(); ++i)
    known[i].tensor.detach().copy_(state.own[i].tensor);
  if (!residuals_) return;
  const double unit = state.own.back().tensor.item<double>();
  residuals_->restore_unit(unit > 0 ? unit : state.common[1].tensor.item<double>());
  const std::vector<NamedTensor> lost = residuals_->tensors();
  for (std::size_t i = 0; i < lost.size(); ++i)
    lost[i].tensor.detach().copy_(state.parts[i].tensor);
}

}  // namespace asup::sync
