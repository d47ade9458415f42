// Work through servers: workers lease runs of samples and push gradients, at whatever pace. Used
// from the thread that trains.
//
// Between sync points workers meet nobody but the servers. These send all to a sync point, where
// all have the same parameters; a worker that is asked to stop asks the servers for one at the end
// of the step that they are dealing out.
//
// A worker that is lost is missed at the next sync point: the others go on without it, and its
// leases are done by them. Where it is lost in the sync point itself, some may have ended it and
// others not: the servers know, and send all there again.
#pragma once

#include <functional>

#include "asup/train/loop/leased_samples.h"
#include "asup/train/loop/work_source.h"
#include "asup/train/state/run_state.h"

namespace asup::train {

class LeasedWork : public WorkSource {
 public:
  // `left`: the workers that are, by their ranks in the job. needs: run.context().server
  LeasedWork(RunState& run, std::function<std::vector<int>()> left);
  ~LeasedWork() override { server_.when_released({}); }
  LeasedWork(const LeasedWork&) = delete;
  LeasedWork& operator=(const LeasedWork&) = delete;

  Traits traits() const override;
  void begin() override { server_.arrive(); }
  StepWork next() override;
  void computed(const StepOutcome& outcome) override;
  void stepped(double) override {}
  bool sync_point_due(const StopRequest& stop) override;
  SyncPoint reach(bool stops) override;
  void end_sync_point() override;

 private:
  RunState& run_;
  TrainingContext& context_;
  ServerReplica& server_;
  const std::function<std::vector<int>()> left_;
  LeasedSamples samples_;
  std::uint64_t done_ = 0;  // samples of the lease
  double loss_ = 0;         // the sum over these
  bool asked_ = false;      // for a sync point, to stop there
};

}  // namespace asup::train
