#include "asup/bench/together.h"

#include <algorithm>
#include <array>

#include "asup/base/error.h"

namespace asup::bench {

Together::Together(Communicator& communicator, std::size_t bytes, int parts, bool shared)
    : communicator_(communicator) {
  const std::size_t count = std::max<std::size_t>(1, bytes / sizeof(float));
  if (shared) {
    reachable_ = communicator.allocate(count * sizeof(float));
    values_ = {reinterpret_cast<float*>(reachable_->bytes().data()), count};
  } else {
    own_.resize(count);
    values_ = own_;
  }
  for (int part = 0; part < parts; ++part) {
    const auto [begin, end] = collective::cut(count, parts, part);
    parts_.push_back(buffer_of(values_.subspan(begin, end - begin)));
  }
}

std::vector<double> Together::times_of_one_call(double seconds) {
  return times(seconds, [this] { communicator_.all_reduce_together(parts_).or_throw(); });
}

std::vector<double> Together::times_of_calls(double seconds) {
  std::vector<Work> works(parts_.size());
  return times(seconds, [&] {
    for (std::size_t i = 0; i < parts_.size(); ++i)
      works[i] = communicator_.start_all_reduce(parts_[i]);
    for (Work& work : works) work.wait().or_throw();
  });
}

std::vector<double> Together::times(double seconds, const std::function<void()>& round) {
  check_result(round);
  const auto time = [&] {
    const auto start = Clock::now();
    round();
    return seconds_since(start);
  };
  const double quickest = std::min({time(), time(), time()});
  std::array<std::int32_t, 1> rounds{
      static_cast<std::int32_t>(std::clamp(seconds / std::max(quickest, 1e-7), 3.0, 20000.0))};
  communicator_.broadcast(buffer_of(std::span(rounds))).or_throw();
  std::vector<double> times(static_cast<std::size_t>(rounds[0]));
  for (double& one : times) one = time();
  std::ranges::sort(times);
  return times;
}

// Leaves zeros, which stay finite however often they are added up.
void Together::check_result(const std::function<void()>& round) {
  const auto brought = [](int rank, std::size_t i) {
    return static_cast<float>(rank) + static_cast<float>(i % 7);
  };
  for (std::size_t i = 0; i < values_.size(); ++i) values_[i] = brought(communicator_.rank(), i);
  round();
  for (std::size_t i = 0; i < values_.size(); ++i) {
    float right = 0;
    for (int rank = 0; rank < communicator_.size(); ++rank) right += brought(rank, i);
    check(values_[i] == right, "{} buffers together: element {} of {} is {} and should be {}",
          parts_.size(), i, values_.size(), values_[i], right);
  }
  std::ranges::fill(values_, 0.0f);
}

}  // namespace asup::bench
