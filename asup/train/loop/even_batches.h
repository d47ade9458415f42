// Work in lockstep: every worker has its part of every global batch, an even one or, with
// `--balance`, one that fits its speed. Batches are assembled ahead; where they grow, those of
// several steps are one work. Used from the thread that trains.
//
// When a worker is lost, those who are left may go on. Where workers step on their own, nothing is
// lost but what it did since it last exchanged its model, and its parts of the steps until it was
// missed. Where they average gradients nothing is: a step that nobody has made is dealt out anew.
#pragma once

#include <optional>

#include "asup/data/prefetch.h"
#include "asup/train/batch_schedule.h"
#include "asup/train/loop/balance.h"
#include "asup/train/loop/work_source.h"
#include "asup/train/state/run_state.h"

namespace asup::train {

class EvenBatches : public WorkSource {
 public:
  explicit EvenBatches(RunState& run);

  Traits traits() const override;
  StepWork next() override;
  void computed(const StepOutcome& outcome) override;
  void stepped(double waited) override;
  bool sums_due() const override;
  bool sync_point_due(const StopRequest& stop) override;
  SyncPoint reach(bool stops) override;
  void end_sync_point() override;
  void end_lost_step(bool made) override;
  void regroup() override;
  bool is_behind() const override { return run_.step() < furthest_; }

 private:
  std::uint64_t epoch() const;
  std::size_t step_in_epoch() const;
  data::Batch next_batch();
  data::Batch next_batches();
  void deal_out_anew();
  void rebalance();
  bool is_beginning() const;
  bool at_sync_point() const;

  RunState& run_;
  TrainingContext& context_;
  const std::int64_t began_;     // after so many steps
  const bool exchanges_models_;  // workers step on their own gradients
  const Updates updates_;
  std::optional<Balance> balance_;
  std::optional<data::Prefetcher> ahead_;
  std::vector<std::int64_t> parts_ahead_;  // of batches that are assembled
  int groups_;                             // of workers, that batches are dealt out to
  std::int64_t held_;                      // the last sync point, in steps
  std::int64_t furthest_ = 0;              // steps of those who are left, when some were lost
  bool must_merge_ = false;                // since some were lost

  // Of the step under way.
  Clock::time_point since_;
  std::int64_t steps_ = 1;   // that it is, where batches have grown
  std::int64_t before_ = 0;  // steps done, before it
  std::int64_t from_ = 0;    // the same, from next() on
  std::int64_t samples_ = 0;
};

}  // namespace asup::train
