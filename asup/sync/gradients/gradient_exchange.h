// Averages gradients over the ranks by all-reduce while backward still runs.
//
// Buckets leave as the collector completes them, so that all ranks start the same calls in the same
// order. A gradient that comes a second time (a second backward before the step) first finishes the
// round and then begins another: averages add up as gradients do.
//
// Gradients arrive on autograd's threads, everything else is called by the thread that trains.
#pragma once

#include "asup/sync/gradients/gradient_collector.h"

namespace asup::sync {

class GradientExchange : private BucketCarrier {
 public:
  // Collective. `order`: see Buckets.
  GradientExchange(Communicator& communicator, std::vector<NamedTensor> parameters,
                   std::span<const std::size_t> order, const layout::BucketSizes& sizes);
  ~GradientExchange() override;

  // While false, gradients only add up here.
  void set_sync(bool sync) { collector_.set_sync(sync); }
  bool sync() const { return collector_.sync(); }

  // Collective. Ends what no backward has: gradients that were only added up, or put there by hand,
  // or are none on this rank. When it returns, a gradient that is defined on any rank is defined on
  // all, and is the average (of zeros where it was not defined); one that is defined on none is
  // left undefined. Throws JobFailed; what the gradients hold then is nothing to apply.
  void finish() { collector_.finish(); }
  // The optimizer has applied what finish() left.
  void next_step();

  // See GradientCollector.
  std::vector<std::size_t> observed_order() const { return collector_.observed_order(); }
  void rebuild(std::span<const std::size_t> order) { collector_.rebuild(order); }

  double wait_seconds() const { return wait_seconds_; }
  double exchange_seconds() const { return exchange_seconds_; }
  const Buckets& buckets() const { return collector_.buckets(); }

 private:
  bool ends_with_backward() const override { return true; }
  void carry(std::size_t bucket, Buffer buffer) override;
  void finish_round() override;
  void second_backward() override {}  // finishing the round is all
  void watch() override;
  void about_to_wait() override;

  void write_notes();
  void read_notes();
  void share_unused();
  void wait_for_works();

  Communicator& communicator_;

  // Under the collector's lock.
  std::uint64_t step_ = 0;
  std::vector<Work> works_;   // of the buckets that have left, in order
  std::size_t returned_ = 0;  // of them, those that are back where the model is
  bool under_way_ = false;
  Clock::time_point under_way_since_;
  double wait_seconds_ = 0, exchange_seconds_ = 0;

  GradientCollector collector_;  // last: its hooks use all above
};

}  // namespace asup::sync
