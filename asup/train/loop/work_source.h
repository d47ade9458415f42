// Where a worker's steps come from, and when workers come together: the ways of training differ in
// this alone. Even parts of global batches (even_batches.h), leases of servers (leased_work.h), or
// the next samples at one's own pace (own_pace.h). Used from the thread that trains.
#pragma once

#include <cstdint>
#include <vector>

#include "asup/base/error.h"
#include "asup/data/dataset.h"

namespace asup::train {

// What a worker computes before its optimizer steps.
struct StepWork {
  data::Batch batch;
  std::int64_t step = 0;  // that the samples belong to, counted from 0
  double weight = 1;      // of a sample's loss in the gradient
  double lr = 0;
  bool alone = false;  // the worker steps without an exchange
  // Of earlier works that go into the same exchange: samples, and the sum of their losses.
  std::uint64_t samples_before = 0;
  double loss_before = 0;
  std::vector<std::int64_t> parts{};  // of a whole batch, by worker, where it is balanced
};

struct StepOutcome {
  std::int64_t step = 0;  // as in the work
  std::int64_t samples = 0;
  double loss = 0;  // sum over samples
};

struct StopRequest {
  bool asked = false;   // this worker was asked to stop
  bool agreed = false;  // all know that one was
};

class WorkSource {
 public:
  virtual ~WorkSource() = default;

  // What the log of steps must know.
  struct Traits {
    bool lockstep = false;          // all are in the same step, and sums travel beside it
    bool skips_non_finite = false;  // a loss that is no number is left out, and so is its step
    bool rows_may_be_empty = false;
    bool counts_by_steps = false;  // rows have the samples of their steps, not those that were told
    bool recovers_in_steps = false;  // a loss may be met in any step, else at sync points alone
  };
  virtual Traits traits() const = 0;

  // The first steps are to come. Collective.
  virtual void begin() {}
  virtual StepWork next() = 0;
  // The gradients are there: the step counts as done, whatever becomes of the exchange.
  virtual void computed(const StepOutcome& outcome) = 0;
  // The replica has stepped; this worker stood still for so many seconds.
  virtual void stepped(double waited) = 0;
  // Of traits().lockstep: sums over workers are to leave after this step.
  virtual bool sums_due() const { return false; }

  // Whether this worker comes to a sync point now.
  virtual bool sync_point_due(const StopRequest& stop) = 0;
  // It comes. False: the sync point takes place without this worker, which joins the next.
  virtual bool come(const StopRequest&) { return true; }

  struct SyncPoint {
    std::int64_t step = 0;  // that all have reached
    bool merges = false;    // models become one
    bool whole = true;      // all workers are there: else the run does not end here
  };
  // What all agree on there. Collective.
  virtual SyncPoint reach(bool stops) = 0;
  // All there have come so far: models are merged, where they are; figures are about to be taken
  // in. Throws JobFailed where others have not. Collective.
  virtual void past_merge() {}
  virtual void agree_on_sums() {}
  // Nobody goes on before all have done what belongs to it. Collective.
  virtual void end_sync_point() = 0;

  // Seconds that this worker has waited for others to come, so far.
  virtual double gathering_seconds() const { return 0; }

  // After an error in a sync point: whether it is given up by all who are in it, to be held again.
  virtual bool gives_up(const JobFailed&) { return false; }
  // A worker was lost: those who go on meanwhile are to come.
  virtual void call_others() {}
  // Of workers that average gradients: the step under way has ended by a loss. Others have `made`
  // it, and so has this worker now; else it is taken again.
  virtual void end_lost_step(bool /*made*/) {}
  // Those who are left are together. Collective.
  virtual void regroup() {}
  // After regroup(): others are further; next() is what is to be done alone.
  virtual bool is_behind() const { return false; }
};

}  // namespace asup::train
