// Steps that workers train by themselves between two exchanges make a round, which servers deal out
// as they otherwise deal out a step. An epoch's last round is as long as the epoch is. Values only.
#pragma once

#include <cstdint>

#include "asup/data/sharding.h"
#include "asup/ps/pace/sample_allocator.h"
#include "asup/train/config.h"
#include "asup/train/schedule.h"

namespace asup::train {

class Rounds {
 public:
  // `every` 1: a round is a step.
  Rounds(std::int64_t every, std::int64_t steps_per_epoch)
      : every_(every), steps_per_epoch_(steps_per_epoch) {}

  std::int64_t per_epoch() const { return (steps_per_epoch_ + every_ - 1) / every_; }
  // Steps that are done when so many rounds are.
  std::int64_t steps_after(std::int64_t rounds) const;
  // The other way round. Throws BadInput where no round ends after so many steps.
  std::int64_t rounds_after(std::int64_t steps) const;

 private:
  const std::int64_t every_, steps_per_epoch_;
};

// The whole run's, from step `first` on, as servers deal it out. Throws BadInput where a sync point
// is inside a round.
ps::pace::Workload work_of(const TrainConfig& config, const RunLength& length,
                           const data::ShardedBatches& batches, std::int64_t first);

// Of the configuration.
Rounds rounds_of(const TrainConfig& config, const RunLength& length);

}  // namespace asup::train
