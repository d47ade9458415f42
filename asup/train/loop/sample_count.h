// Steps as samples: where workers have no steps in common, a job is as far as the samples of all of
// them together. Values only.
#pragma once

#include <cstdint>

#include "asup/data/sharding.h"
#include "asup/train/schedule.h"

namespace asup::train {

class SampleCount {
 public:
  SampleCount(const RunLength& length, const data::ShardedBatches& batches);

  // Samples of the first `steps` steps.
  std::int64_t of(std::int64_t steps) const;
  // The step (0 first) that the next sample belongs to when so many are done; the last one of the
  // run where all are.
  std::int64_t step_at(std::int64_t samples) const;
  // Steps that so many samples fill, the last one in part.
  std::int64_t steps_for(std::int64_t samples) const;

 private:
  const std::int64_t steps_, per_epoch_;  // steps
  const std::int64_t batch_, epoch_;      // samples
};

}  // namespace asup::train
