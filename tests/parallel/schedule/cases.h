// Specs to try schedules on. Values only.
#pragma once

#include <string_view>
#include <vector>

#include "asup/parallel/schedule/schedule.h"

namespace asup::parallel::testing {

inline PipelineSpec spec_of(const PipelineSchedule& schedule, int ranks, int micro_batches,
                            int chunks = 0) {
  return {.ranks = ranks,
          .micro_batches = micro_batches,
          .chunks = chunks > 0 ? chunks : schedule.least_chunks,
          .placement = schedule.placement};
}

inline std::vector<int> activations_of(const PipelineSchedule& schedule, const PipelineSpec& spec) {
  std::vector<int> most;
  for (int rank = 0; rank < spec.ranks; ++rank) most.push_back(schedule.activations(rank, spec));
  return most;
}

// Calls visit(schedule, spec) for every schedule, number of ranks and micro-batches, and for few
// chunks where it may have several.
template <typename Visit>
void for_each_case(int most_ranks, int most_micro_batches, Visit visit) {
  for (const PipelineSchedule& schedule : pipeline_schedules())
    for (int chunks = schedule.least_chunks; chunks <= std::min(schedule.most_chunks, 3); ++chunks)
      for (int ranks = 1; ranks <= most_ranks; ++ranks)
        for (int m = 1; m <= most_micro_batches; ++m)
          visit(schedule, spec_of(schedule, ranks, m, chunks));
}

}  // namespace asup::parallel::testing
