// Averages gradients over the ranks while backward still runs.
//
// A round begins with the first gradient that arrives and ends with finish(). A bucket leaves when
// its last gradient has arrived and all buckets before it have left, so that all ranks start the
// same calls in the same order; finish() sends those that are left, with zeros for gradients that
// did not come. A gradient that comes a second time (a second backward before the step) first
// finishes the round and then begins another: averages add up as gradients do.
//
// Small gradients are copied into their bucket; large ones, which autograd makes in memory that
// links reach (GradientArena), travel from where they are.
//
// Gradients arrive on autograd's threads, everything else is called by the thread that trains.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "asup/sync/buckets.h"
#include "asup/sync/gradient_arena.h"
#include "asup/sync/gradient_hooks.h"

namespace asup::sync {

class GradientExchange {
 public:
  // Collective. `order`: see Buckets.
  GradientExchange(Communicator& communicator, std::vector<NamedTensor> parameters,
                   std::span<const std::size_t> order, const BucketSizes& sizes);
  ~GradientExchange();

  // While false, gradients only add up here.
  void set_sync(bool sync);
  bool sync() const { return sync_; }

  // Collective. When it returns, a gradient that is defined on any rank is defined on all, and is
  // the average (of zeros where it was not defined); one that is defined on none is left undefined.
  // Throws JobFailed; what the gradients hold then is nothing to apply.
  void finish();
  // The optimizer has applied what finish() left.
  void next_step();

  // The order in which gradients came in the first round, those that did not come at the end.
  std::vector<std::size_t> observed_order() const;
  // Collective: moves the gradients into buckets laid out for another order. Needs: finish().
  void rebuild(std::span<const std::size_t> order);

  double wait_seconds() const { return wait_seconds_; }
  double exchange_seconds() const { return exchange_seconds_; }
  const Buckets& buckets() const { return *buckets_; }

 private:
  void before(std::size_t parameter);
  void after(std::size_t parameter);
  void adopt(std::size_t parameter);
  bool in_place(std::size_t parameter) const;
  void leave();
  Buffer fill(std::size_t bucket);
  void write_notes();
  void read_notes();
  void share_unused();
  void finish_locked();
  void wait_for_all();
  void begin_round();
  void watch();

  // Constant after construction.
  Communicator& communicator_;
  const std::vector<NamedTensor> parameters_;
  const BucketSizes sizes_;
  const GradientArena arena_;

  // Protected by mutex_: autograd may run a thread per device.
  mutable std::mutex mutex_;
  std::unique_ptr<Buckets> buckets_;
  bool sync_ = true;
  bool finished_ = false;
  std::uint64_t step_ = 0;
  std::vector<std::uint8_t> arrived_, used_;  // a parameter's, in this round
  std::vector<std::size_t> missing_;          // gradients that a bucket waits for
  std::vector<Work> works_;                   // of the buckets that have left, in order
  std::vector<torch::Tensor> travelling_;  // gradients in place, whatever the user does to grad()
  std::vector<std::size_t> arrivals_;      // of the first round
  bool recording_ = true;
  bool under_way_ = false;
  Clock::time_point under_way_since_;
  double wait_seconds_ = 0, exchange_seconds_ = 0;

  GradientHooks hooks_;  // last: nothing above goes while a hook may come
};

}  // namespace asup::sync
