// One turn of a peer in bench/collective.py and bench/hosts.py: an all-reduce of floats in place,
// at each of the sizes on the command line, checked first and then timed for some seconds. Rank 0
// prints a line of JSON a size. All peers share this, and `asup bench collective` does the same, so
// that their figures compare: a time is what one call takes on rank 0, calls follow each other at
// once. Each process has its own; nothing here knows of threads.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace turn {

struct Turn {
  double seconds = 0;              // of timed calls, a size
  std::vector<std::size_t> sizes;  // bytes
};

// What main() is given from `argument` on: seconds, then sizes in bytes. Ends the process with
// status 2 where they are none.
inline Turn parse(int argc, char** argv, int argument) {
  Turn turn;
  char* end = nullptr;
  if (argument < argc) turn.seconds = std::strtod(argv[argument++], &end);
  for (; argument < argc; ++argument)
    turn.sizes.push_back(std::strtoull(argv[argument], &end, 10) / sizeof(float) * sizeof(float));
  if (turn.seconds > 0 && !turn.sizes.empty() && *std::ranges::min_element(turn.sizes) > 0)
    return turn;
  std::fprintf(stderr, "%s: seconds above 0 and sizes of 4 bytes or more are needed\n", argv[0]);
  std::exit(2);
}

// Values whose sums floats hold exactly, and that differ by rank and place.
inline void fill(float* values, std::size_t count, int rank) {
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>(rank + 1) + static_cast<float>(i % 5);
}

// Ends the process where one element is not the sum over all ranks. Leaves zeros: however often
// they are added up, they stay finite.
inline void check_sums(float* values, std::size_t count, int ranks, const char* what) {
  for (std::size_t i = 0; i < count; ++i) {
    const float sum = static_cast<float>(ranks * (ranks + 1) / 2) +
                      static_cast<float>(ranks) * static_cast<float>(i % 5);
    if (values[i] != sum) {
      std::fprintf(stderr, "%s: element %zu of %zu is %g and should be %g\n", what, i, count,
                   static_cast<double>(values[i]), static_cast<double>(sum));
      std::exit(1);
    }
  }
  std::fill(values, values + count, 0.0f);
}

template <typename Call>
double timed_us(Call&& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
      .count();
}

// Calls that a size is timed with at least: the long ones are few.
inline std::size_t least_calls(std::size_t bytes) { return bytes < std::size_t{16} << 20 ? 5 : 2; }

// Microseconds of so many calls that they fill the time, sorted; first as many as `least` to warm
// up. `agree` turns a number into rank 0's on all ranks.
template <typename Call, typename Agree>
std::vector<double> time_calls(double seconds, std::size_t least, Call&& call, Agree&& agree) {
  std::vector<double> warm(least);
  for (double& us : warm) us = timed_us(call);
  const double fastest = std::max(0.1, *std::ranges::min_element(warm));
  const double enough = seconds * 1e6 / fastest;
  const long calls =
      agree(static_cast<long>(std::clamp(enough, static_cast<double>(least), 20000.0)));
  std::vector<double> times(static_cast<std::size_t>(calls));
  for (double& us : times) us = timed_us(call);
  std::ranges::sort(times);
  return times;
}

inline double median(const std::vector<double>& sorted) { return sorted[(sorted.size() - 1) / 2]; }

// `way`: which of its ways the peer found fastest at this size.
inline void print_row(std::size_t bytes, const char* buffers, const std::string& way,
                      const std::vector<double>& sorted) {
  std::printf(
      "{\"bytes\": %zu, \"buffers\": \"%s\", \"way\": \"%s\", \"p50_us\": %.3f, \"min_us\": "
      "%.3f}\n",
      bytes, buffers, way.c_str(), median(sorted), sorted.front());
  std::fflush(stdout);
}

}  // namespace turn
