// Work at one's own pace: every worker takes steps on its own shard of the samples, as fast as it
// can, and meets the others only at sync points. Used from the thread that trains.
//
// The job is as far as the samples of all workers together, which each knows about by hearsay
// (gossip/gossip_progress.h). Who sees that a sync point is reached, because it is asked to stop,
// or because the time of a round is over (`--round-seconds`), calls the others; each ends the step
// it is in, and comes. There counts become exact, and at the end of a round models are merged.
// Workers do a little more than was asked for: what was under way when the sync point was called.
//
// A worker that is late for a sync point, or holds one up, is done without until the next
// (`--merge-deadline`, loop/quorum_rounds.h).
#pragma once

#include "asup/data/own_part.h"
#include "asup/gossip/gossip_progress.h"
#include "asup/net/job.h"
#include "asup/train/loop/quorum_rounds.h"
#include "asup/train/loop/round_clock.h"
#include "asup/train/loop/sample_count.h"
#include "asup/train/loop/work_source.h"

namespace asup::train {

class OwnShard : public WorkSource {
 public:
  // `left`: the workers that are, by their ranks in the job. Collective.
  OwnShard(RunState& run, Job& job, std::function<std::vector<int>()> left);
  ~OwnShard() override;
  OwnShard(const OwnShard&) = delete;
  OwnShard& operator=(const OwnShard&) = delete;

  Traits traits() const override;
  void begin() override;
  StepWork next() override;
  void computed(const StepOutcome& outcome) override;
  void stepped(double waited) override;
  bool sync_point_due(const StopRequest& stop) override;
  bool come(const StopRequest& stop) override;
  SyncPoint reach(bool stops) override;
  void past_merge() override;
  void agree_on_sums() override { rounds_.agree(QuorumRounds::Milestone::counted); }
  void end_sync_point() override;
  double gathering_seconds() const override { return gathering_; }
  bool gives_up(const JobFailed& error) override;
  void call_others() override { progress_.call_round(next_round_ + 1); }
  void regroup() override;

 private:
  std::int64_t total() const;
  std::int64_t next_sync_point() const;
  std::int64_t step_under_way() const;
  void share_batch();
  void agree_on_counts();
  std::int64_t step_reached(bool stops) const;

  RunState& run_;
  TrainingContext& context_;
  const std::function<std::vector<int>()> left_;
  const std::size_t rank_;
  const SampleCount samples_;
  const std::vector<std::int64_t> sync_points_;  // steps
  data::OwnPart part_;
  gossip::GossipProgress progress_;
  QuorumRounds rounds_;
  RoundClock clock_;

  std::vector<std::int64_t> counts_;  // samples by worker: our own, the others' as of the last time
  std::int64_t known_ = 0;            // samples of all, by hearsay
  std::size_t batch_ = 0;             // this worker's part of one
  std::uint64_t next_round_ = 1;      // the next sync point, or merge
  bool whole_ = true;                 // all came to the last one
  bool ended_whole_ = true;           // and held it to its end
  bool missed_ = false;               // the last one took place without this worker
  bool merged_ = false;               // this worker has not stepped since
  bool must_merge_ = false;           // since a worker was lost
  bool ends_round_ = false;           // the last one did, by a merge
  bool together_ = false;             // since then, all have come
  double gathering_ = 0;

  bool has_stepped_ = false;  // since this worker last came

  // Of the step under way, and of the round.
  Clock::time_point step_began_, came_;
  double share_ = 1;              // of this worker's part of a batch
  std::int64_t step_before_ = 0;  // the run's, when the round began
};

}  // namespace asup::train
