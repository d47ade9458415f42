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

}  // namespace

BackwardCourse::BackwardCourse(const std::vector<std::int64_t>& elements)
    : work_(elements.begin(), elements.end()), spent_(elements.size(), 0) {}

void BackwardCourse::begin() {
  if (std::any_of(spent_.begin(), spent_.end(), [](double each) { return each > 0; }))
    work_ = spent_;
  all_ = std::accumulate(work_.begin(), work_.end(), 0.0);
  done_ = 0;
  ++backwards_;
  thread_ = std::this_thread::get_id();
  since_ = processor_seconds();
}

double BackwardCourse::reach(std::size_t parameter) {
  measure(parameter);
  done_ += work_.at(parameter);
  return all_ > 0 ? std::min(done_ / all_, 1.0) : 1;
}

// On a GPU, torch runs backward on a thread of its own.
void BackwardCourse::measure(std::size_t parameter) {
  if (std::this_thread::get_id() != thread_ || backwards_ <= kUnusual) return;
  spent_.at(parameter) += processor_seconds() - since_;
}

void BackwardCourse::go_on() { since_ = processor_seconds(); }

}  // namespace asup::bench
