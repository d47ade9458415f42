// The mean of some numbers. needs: one or more
#pragma once

#include <numeric>
#include <vector>

namespace asup::ps::pace {

inline double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace asup::ps::pace
