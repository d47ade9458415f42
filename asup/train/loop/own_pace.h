// Work at one's own pace: every worker takes steps as fast as it can, each on the next samples of
// the global order that nobody has (gossip/sample_dealer.h), and meets the others only at sync
// points. So an epoch is one pass over the data, of which a fast worker does more. It asks for its
// next samples ahead of time, and reads them beside the step that it is in; what it has, it does
// before it comes to a sync point. Used from the thread that trains.
//
// Who finds that no samples are left before the next sync point, is asked to stop, or sees that the
// time of a round is over (`--round-seconds`), calls the others (gossip/gossip_progress.h); each
// ends the step it is in, and comes. At the end of a round models are merged.
//
// A worker that is late for a sync point, or holds one up, is done without until the next
// (`--merge-deadline`, loop/quorum_rounds.h).
#pragma once

#include "asup/gossip/gossip_progress.h"
#include "asup/net/job.h"
#include "asup/train/loop/own_samples.h"
#include "asup/train/loop/quorum_rounds.h"
#include "asup/train/loop/round_clock.h"
#include "asup/train/loop/sample_count.h"
#include "asup/train/loop/work_source.h"

namespace asup::train {

class OwnPace : public WorkSource {
 public:
  // `left`: the workers that are, by their ranks in the job. Collective.
  OwnPace(RunState& run, Job& job, std::function<std::vector<int>()> left);
  ~OwnPace() override;
  OwnPace(const OwnPace&) = delete;
  OwnPace& operator=(const OwnPace&) = delete;

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
  void share_batch();
  void agree_on_counts();
  void keep_counts();
  std::int64_t step_reached(bool stops) const;

  RunState& run_;
  TrainingContext& context_;
  const std::function<std::vector<int>()> left_;
  const std::size_t rank_;
  const SampleCount samples_;
  const std::vector<std::int64_t> sync_points_;  // steps
  OwnSamples own_;
  gossip::GossipProgress progress_;
  QuorumRounds rounds_;
  RoundClock clock_;

  std::vector<std::int64_t> counts_;  // samples by worker: our own, the others' as of the last time
  std::vector<std::int64_t> counts_before_;  // when dealing began
  bool comes_ = false;                       // to a sync point, when it has done what it has
  std::uint64_t next_round_ = 1;             // the next sync point, or merge
  bool whole_ = true;                        // all came to the last one
  bool ended_whole_ = true;                  // and held it to its end
  bool missed_ = false;                      // the last one took place without this worker
  bool merged_ = false;                      // this worker has not stepped since
  bool must_merge_ = false;                  // since a worker was lost
  bool ends_round_ = false;                  // the last one did, by a merge
  bool together_ = false;                    // since then, all have come
  double gathering_ = 0;

  bool has_stepped_ = false;  // since this worker last came

  // Of the step under way, and of the round.
  Clock::time_point step_began_, came_;
  double share_ = 1;              // of this worker's part of a batch
  std::int64_t step_before_ = 0;  // the run's, when the round began
  std::uint64_t reached_ = 0;     // the place up to which all was done there
};

}  // namespace asup::train
