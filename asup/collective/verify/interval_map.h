// A value for every element of [0, size), kept as runs of equal ones: memory and time grow with the
// number of runs, not of elements. One thread at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace asup::collective::proof {

template <typename T>
class IntervalMap {
 public:
  IntervalMap(std::size_t size, T initial) : size_(size) {
    if (size > 0) runs_.push_back({0, std::move(initial)});
  }

  std::size_t size() const { return size_; }

  // Calls visit(begin, end, value) for the runs that make up [begin, end), in order.
  template <typename Visit>
  void visit(std::size_t begin, std::size_t end, Visit visit) const {
    if (begin >= end) return;
    for (std::size_t i = find(begin); begin < end; ++i) {
      const std::size_t run_end = std::min(end_of(i), end);
      visit(begin, run_end, runs_[i].value);
      begin = run_end;
    }
  }

  // The same, with values that may be changed.
  template <typename Visit>
  void change(std::size_t begin, std::size_t end, Visit visit) {
    if (begin >= end) return;
    const std::size_t first = split(begin), last = split(end);
    for (std::size_t i = first; i < last; ++i) visit(runs_[i].begin, end_of(i), runs_[i].value);
  }

  struct Run {
    std::size_t begin;
    T value;
  };

  // [begin, end) is made up of `runs` from now on. needs: they are in order, from begin on
  void assign(std::size_t begin, std::size_t end, std::span<const Run> runs) {
    if (begin >= end) return;
    const std::size_t first = split(begin), last = split(end);
    const std::size_t kept = std::min(runs.size(), last - first);  // room that is there already
    const auto at = std::copy_n(runs.begin(), kept, runs_.begin() + first);
    runs_.erase(at, runs_.begin() + last);
    runs_.insert(runs_.begin() + first + kept, runs.begin() + kept, runs.end());
  }

 private:
  std::size_t end_of(std::size_t i) const {
    return i + 1 < runs_.size() ? runs_[i + 1].begin : size_;
  }

  // The run that holds element `at`. needs: at < size
  std::size_t find(std::size_t at) const {
    const auto after =
        std::upper_bound(runs_.begin(), runs_.end(), at,
                         [](std::size_t a, const Run& run) { return a < run.begin; });
    return after - runs_.begin() - 1;
  }

  // The run that begins at `at`, made so if need be; one past the last run for `at` == size.
  std::size_t split(std::size_t at) {
    if (at == size_) return runs_.size();
    const std::size_t i = find(at);
    if (runs_[i].begin == at) return i;
    runs_.insert(runs_.begin() + i + 1, Run{at, runs_[i].value});
    return i + 1;
  }

  const std::size_t size_;
  std::vector<Run> runs_;
};

}  // namespace asup::collective::proof
