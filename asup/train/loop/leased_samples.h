// The samples of a lease, as a worker takes them: in one part or, where it trains by itself between
// exchanges, in several. Used from the thread that trains.
#pragma once

#include <optional>

#include "asup/data/dataset.h"
#include "asup/data/sharding.h"
#include "asup/ps/message.h"
#include "asup/train/config.h"
#include "asup/train/state/rounds.h"

namespace asup::train {

class LeasedSamples {
 public:
  // What it refers to must outlive it.
  LeasedSamples(const TrainConfig& config, const RunLength& length, const data::Dataset& dataset,
                const data::ShardedBatches& batches)
      : config_(config),
        length_(length),
        dataset_(dataset),
        batches_(batches),
        rounds_(rounds_of(config, length)) {}

  // Samples of one step, for one step of this worker. Beyond the end of the step are those of the
  // next: a sample that would be alone has no statistics, and goes with others.
  struct Part {
    std::int64_t step = 0;
    data::Part samples;
    bool operator==(const Part&) const = default;
  };
  // The one that begins with sample `at` of the lease.
  Part part_at(const ps::Release& lease, std::uint64_t at) const;

  // Reads the first part of what comes next, before it is asked for.
  void prepare(const ps::Release& release);
  data::Batch take(const Part& part);

  // Steps that are done at a sync point.
  std::int64_t steps_at(const ps::Release& sync_point) const {
    return rounds_.steps_after(static_cast<std::int64_t>(sync_point.step));
  }

 private:
  std::vector<std::int64_t> indices_of(const Part& part) const;

  const TrainConfig& config_;
  const RunLength& length_;
  const data::Dataset& dataset_;
  const data::ShardedBatches& batches_;
  const Rounds rounds_;  // what servers deal out as steps

  Part prepared_;
  std::optional<data::Batch> batch_;  // of it
};

}  // namespace asup::train
