// Specs to try algorithms on, and the plans of all ranks.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <vector>

#include "asup/collective/plan/plan.h"
#include "asup/collective/verify/verify.h"

namespace asup::collective::testing {

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

inline bool has_root(Collective collective) {
  return collective == Collective::broadcast || collective == Collective::reduce ||
         collective == Collective::gather || collective == Collective::scatter;
}

inline bool knows_in_place(Collective collective) {
  return Spec{.collective = collective, .in_place = true}.aliased();
}

// Out of place.
inline Spec spec_for(const Algorithm& algorithm, int ranks, std::size_t count) {
  return {.collective = algorithm.collective,
          .ranks = ranks,
          .count = count,
          .in_place = false,
          .shared = algorithm.needs_shared,
          .stage = algorithm.needs_stage};
}

// Hosts of three ranks each; the last may have fewer.
inline std::vector<int> hosts_of_three(int ranks) {
  std::vector<int> hosts;
  for (int r = 0; r < ranks; ++r) hosts.push_back(r / 3);
  return hosts;
}

// Every count that is special for n ranks, in place (where the collective knows it) and out of
// place: none, one, fewer than ranks, as many, prime, round, and enough for several lanes of small
// slices. Of groups of more than 32, the even ones in place and the odd ones out of place.
inline std::vector<Spec> specs_for(const Algorithm& algorithm, int ranks) {
  const std::size_t n = ranks;
  std::vector<Spec> specs;
  for (const bool in_place : {true, false}) {
    Spec spec = spec_for(algorithm, ranks, 0);
    spec.in_place = in_place;
    if (in_place && !knows_in_place(algorithm.collective)) continue;
    if (ranks > 32 && in_place == (ranks % 2 == 1) && knows_in_place(algorithm.collective))
      continue;
    spec.root = ranks / 3;
    if (ranks % 2 == 0) spec.hosts = hosts_of_three(ranks);
    for (const std::size_t count :
         {std::size_t{0}, std::size_t{1}, n - 1, n, std::size_t{10007}, std::size_t{1000}}) {
      spec.count = count;
      specs.push_back(spec);
    }
    spec.slice = 64;
    spec.count = n * 64 * 3 + 17;
    specs.push_back(spec);
  }
  return specs;
}

inline bool has_counts(Collective collective) {
  return collective == Collective::reduce_scatter || collective == Collective::all_gather ||
         collective == Collective::gather || collective == Collective::scatter ||
         collective == Collective::all_to_all;
}

// Blocks of 0 to 400 elements. needs: the collective knows counts
inline void give_uneven_counts(Spec& spec) {
  spec.count = 0;
  const bool matrix = spec.collective == Collective::all_to_all;
  for (int b = 0; b < (matrix ? spec.ranks * spec.ranks : spec.ranks); ++b) {
    spec.counts.push_back(b % 3 == 1 ? 0 : (b * 131) % 400);
    spec.count += spec.counts.back();
  }
}

// Tests of every row of the table, but of send and recv, which are verified as a pair.
class AlgorithmTest : public ::testing::TestWithParam<std::size_t> {
 protected:
  const Algorithm& algorithm() const { return algorithms()[GetParam()]; }
};

inline auto every_algorithm(bool (*of)(Collective) = [](Collective) { return true; }) {
  std::vector<std::size_t> rows;
  for (std::size_t row = 0; row < algorithms().size(); ++row) {
    const Collective collective = algorithms()[row].collective;
    const bool paired = is_point_to_point(collective);
    if (!paired && of(collective)) rows.push_back(row);
  }
  return ::testing::ValuesIn(rows);
}

inline std::string name_of_row(const ::testing::TestParamInfo<std::size_t>& info) {
  const Algorithm& algorithm = algorithms()[info.param];
  return fmt::format("{}_{}", name_of(algorithm.collective), algorithm.name);
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
