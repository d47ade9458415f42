// Specs to try algorithms on, and the plans of all ranks.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <vector>

#include "asup/collective/plan.h"
#include "asup/collective/verify.h"

namespace asup::collective::testing {

// 1 to 32 and 64.
inline std::vector<int> group_sizes() {
  std::vector<int> sizes;
  for (int n = 1; n <= 32; ++n) sizes.push_back(n);
  sizes.push_back(64);
  return sizes;
}

inline std::vector<Plan> plans_of(const Algorithm& algorithm, const Spec& spec) {
  std::vector<Plan> plans;
  for (int rank = 0; rank < spec.ranks; ++rank) plans.push_back(algorithm.plan(rank, spec));
  return plans;
}

inline std::string describe(const Spec& spec) {
  std::string counts;
  for (std::size_t count : spec.counts) counts += fmt::format(" {}", count);
  return fmt::format("{} of {} elements (blocks{}) among {} ranks, root {}, {}, slices of {}",
                     name_of(spec.collective), spec.count, counts.empty() ? " even" : counts,
                     spec.ranks, spec.root, spec.in_place ? "in place" : "out of place",
                     spec.slice);
}

inline void expect_proven(const Algorithm& algorithm, const Spec& spec) {
  const std::optional<Flaw> flaw = verify(algorithm, spec);
  EXPECT_FALSE(flaw) << algorithm.name << ", " << describe(spec) << "\n" << describe(*flaw);
}

// Proves every count that is special for n ranks, in place and out of place: none, one, fewer than
// ranks, as many, prime, round, and enough for several lanes of small slices.
inline void expect_proven_for_all_counts(const Algorithm& algorithm, Spec spec) {
  const std::size_t n = spec.ranks;
  spec.shared = algorithm.needs_shared;
  spec.stage = algorithm.needs_stage;
  for (const bool in_place : {true, false}) {
    spec.in_place = in_place;
    spec.slice = 1 << 16;
    for (const std::size_t count :
         {std::size_t{0}, std::size_t{1}, n - 1, n, std::size_t{10007}, std::size_t{1000}}) {
      spec.count = count;
      expect_proven(algorithm, spec);
    }
    spec.slice = 64;
    spec.count = n * 64 * 3 + 17;
    expect_proven(algorithm, spec);
  }
}

// Elements that a plan sends in messages.
inline std::size_t elements_sent(const Plan& plan) {
  std::size_t sum = 0;
  for (const Lane& lane : plan.lanes) {
    for (const Round& round : lane) {
      for (const Step& step : round) {
        if (step.op == Step::Op::send) sum += step.src.size();
      }
    }
  }
  return sum;
}

}  // namespace asup::collective::testing
