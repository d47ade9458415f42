#include "asup/bench/backward_course.h"

#include <algorithm>
#include <ctime>
#include <numeric>

namespace asup::bench {
namespace {

constexpr std::int64_t kUnusual = 1;  // backwards that tell nothing of those to come

double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double sum_of(const std::vector<double>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0);
}

}  // namespace

BackwardCourse::BackwardCourse(const std::vector<std::int64_t>& elements)
    : work_(elements.begin(), elements.end()), spent_(elements.size(), 0) {}

void BackwardCourse::begin() {
  if (sum_of(spent_) > 0) work_ = spent_;
  done_ = 0;
  ++backwards_;
  thread_ = std::this_thread::get_id();
  since_ = processor_seconds();
}

double BackwardCourse::reach(std::size_t parameter) {
  measure(parameter);
  done_ += work_.at(parameter);
  const double all = sum_of(work_);
  return all > 0 ? std::min(done_ / all, 1.0) : 1;
}

// On a GPU, torch runs backward on a thread of its own.
void BackwardCourse::measure(std::size_t parameter) {
  if (std::this_thread::get_id() != thread_ || backwards_ <= kUnusual) return;
  spent_.at(parameter) += processor_seconds() - since_;
}

void BackwardCourse::go_on() { since_ = processor_seconds(); }

std::vector<double> BackwardCourse::shares() const {
  std::vector<double> shares = work_;
  const double all = sum_of(work_);
  for (double& share : shares) share /= all;
  return shares;
}

}  // namespace asup::bench
