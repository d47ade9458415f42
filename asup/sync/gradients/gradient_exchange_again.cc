// A round of gradients in which a rank is lost: those who are left exchange them once more, or take
// what came of it from one of them.
#include "asup/base/timeline.h"
#include "asup/kernels/copy.h"
#include "asup/sync/gradients/gradient_exchange.h"

namespace asup::sync {

void GradientExchange::keep(std::size_t bucket, const Buffer& gradients) {
  const auto* const bytes = static_cast<const std::byte*>(gradients.data);
  left_.push_back(gradients);
  if (kept_.size() <= bucket) kept_.resize(bucket + 1);
  kept_[bucket].resize(gradients.bytes());
  kernels::copy(kept_[bucket].data(), bytes, gradients.bytes());
}

void GradientExchange::leave_again() {
  returned_ = 0;
  arrived_.assign(works_.size(), false);
  for (std::size_t bucket = 0; bucket < works_.size(); ++bucket) {
    kernels::copy(left_[bucket].data, kept_[bucket].data(), kept_[bucket].size());
    const TimelineLabelled labelled({.bucket = static_cast<int>(bucket)});
    works_[bucket] = leave(bucket, left_[bucket]);
  }
}

// Where a parameter was used elsewhere alone, it has a gradient here too.
void GradientExchange::take_averages(int rank) {
  const auto& parameters = collector_.parameters();
  std::vector<std::uint8_t> has;
  for (const auto& [name, tensor] : parameters) has.push_back(tensor.grad().defined());
  communicator_.broadcast(buffer_of(std::span(has)), rank).or_throw();
  for (const Buffer& left : left_)
    communicator_.broadcast({left.data, left.bytes(), Dtype::u8}, rank).or_throw();
  if (!in_round_) return;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (has[i] && !parameters[i].tensor.grad().defined()) collector_.define(i);
  late_samples_.reset();
  returned_ = 0;
  close_round();
}

void GradientExchange::end_elsewhere() {
  if (in_round_) ++exchanges_;
  in_round_ = false;
  rounds_ = 0;
  late_samples_.reset();
}

// What comes of several calls for a bucket is not there before the last of them.
void GradientExchange::end_step_of_residuals() {
  const bool is_there = !in_round_ || !code_.compressor || code_.compressor->calls() == 1;
  for (Residuals& residuals : residuals_) residuals.end_step(is_there);
}

}  // namespace asup::sync
