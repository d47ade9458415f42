#include "asup/train/loop/step_metrics.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace asup::train {
namespace {

// What each says when somebody was lost.
constexpr std::size_t kWords = 5;

void put(report::StepRecord& to, const report::StepRecord& later) {
  to.samples == 0 ? void(to = later) : to.add(later);
}

}  // namespace

void StepMetrics::note(const report::StepRecord& record, double loss, std::size_t samples) {
  put(noted_, record);
  own_.loss += loss;
  own_.samples += static_cast<double>(samples);
}

void StepMetrics::took(double seconds, double now, const std::vector<std::int64_t>& parts) {
  noted_.step_seconds += seconds;
  noted_.seconds = now;
  noted_.parts = parts;
}

void StepMetrics::tell(double wait_seconds, bool stop_asked) {
  own_.wait_seconds += wait_seconds;
  own_.stops = stop_asked ? 1 : 0;
  told_own_ = std::exchange(own_, {});
  told_ = std::exchange(noted_, {});
  tally_.start(told_own_);
  under_way_ = true;
}

std::optional<StepMetrics::Told> StepMetrics::collect() {
  const auto sums = tally_.collect();
  if (!sums) return std::nullopt;
  return take_in(*sums);
}

// Samples are those that were done: where a worker was lost, fewer than the steps have.
StepMetrics::Told StepMetrics::take_in(const StepFigures& sums) {
  under_way_ = false;
  ++collected_;
  sums_ = sums;
  told_.loss = sums.loss / sums.samples;
  told_.samples = std::llround(sums.samples);
  told_.comm_s = sums.wait_seconds / communicator_.size();
  return {told_, sums.stops > 0};
}

// Nobody is further ahead than by one tally: it takes all to end one.
std::optional<StepMetrics::Told> StepMetrics::regroup() {
  tally_.drop();
  std::array<double, kWords> own{static_cast<double>(collected_), sums_.loss, sums_.samples,
                                 sums_.wait_seconds, sums_.stops};
  std::vector<double> all(kWords * static_cast<std::size_t>(communicator_.size()));
  communicator_.all_gather(buffer_of(std::span(own)), buffer_of(std::span(all))).or_throw();
  std::size_t furthest = 0;
  for (std::size_t i = 0; i < all.size(); i += kWords)
    if (all[i] > all[furthest]) furthest = i;
  const double* words = all.data() + furthest;
  if (words[0] > own[0]) return take_in({words[1], words[2], words[3], words[4]});
  if (!std::exchange(under_way_, false)) return std::nullopt;
  own_.loss += told_own_.loss;
  own_.samples += told_own_.samples;
  own_.wait_seconds += told_own_.wait_seconds;
  std::swap(noted_, told_);
  if (told_.samples > 0) put(noted_, told_);
  return std::nullopt;
}

}  // namespace asup::train
