// Gathers the gradients that backward makes into buckets, and hands each bucket over when it is
// complete, while backward goes on.
//
// A round begins with the first gradient that arrives and ends with its backward, where the carrier
// can do that, else with finish(). A bucket leaves when
// its last gradient has arrived and all buckets before it have left, so that all ranks hand over
// the same buckets in the same order; finish() hands over those that are left, with zeros for
// gradients that did not come.
//
// Small gradients are copied into their bucket; large ones, which autograd makes in memory that
// links reach (GradientArena), leave from where they are. On a GPU, all are copied into their
// bucket, which is copied to the host beside backward, and handed over when it is there: backward's
// host thread is far ahead of the GPU, and waits for one bucket after the other at the end.
//
// Gradients arrive on autograd's threads, everything else is called by the thread that trains.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "asup/sync/gradients/buckets.h"
#include "asup/sync/gradients/gradient_arena.h"
#include "asup/sync/gradients/gradient_hooks.h"

namespace asup::sync {

// Takes the buckets away. Called by a collector, under its lock: one call at a time.
class BucketCarrier {
 public:
  virtual ~BucketCarrier() = default;

  // Whether rounds end with their backward: gradients are final when backward() returns.
  virtual bool ends_with_backward() const = 0;
  // Whether to ask GPUs for Buckets::peak() of each bucket.
  virtual bool wants_peaks() const { return false; }
  // Whether it calls release() for each bucket but the last, which is then of notes alone, so that
  // gradients go when they have travelled.
  virtual bool releases() const { return false; }
  // A bucket is complete: in order, each once a round. What `buffer` refers to stays as it is until
  // the next round begins, or it is released.
  virtual void carry(std::size_t bucket, Buffer buffer) = 0;
  // All buckets of the round have been handed over: returns when they have arrived.
  virtual void finish_round() = 0;
  // A second backward comes before the step. When this returns, its round begins; gradients add up.
  virtual void second_backward() = 0;
  // A gradient has come.
  virtual void watch() {}
  // Backward has ended on the host, which is about to wait for a bucket that the GPU computes.
  virtual void about_to_wait() {}
};

class GradientCollector {
 public:
  // Collective. `order`: see Buckets. `notes`: elements at the end for the carrier's own use.
  GradientCollector(Communicator& communicator, std::vector<NamedTensor> parameters,
                    std::span<const std::size_t> order, const layout::BucketRules& sizes,
                    std::size_t notes, BucketCarrier& carrier);
  // Nobody may read the buckets any more; the user's gradients get memory of their own.
  ~GradientCollector();

  // While false, gradients only add up here.
  void set_sync(bool sync);
  bool sync() const { return sync_; }

  // Ends the round, once.
  void finish();
  // Begins the next one. needs: finish()
  void next_round();

  // The order in which gradients came in the first round, those that did not come at the end.
  std::vector<std::size_t> observed_order() const;
  // Collective: moves the gradients into buckets laid out for another order. needs: finish()
  void rebuild(std::span<const std::size_t> order);

  const std::vector<NamedTensor>& parameters() const { return parameters_; }
  const Buckets& buckets() const { return *buckets_; }

  // For the carrier, while it is called.
  Buckets& buckets() { return *buckets_; }
  // Parameters whose gradient was defined when their bucket left.
  const std::vector<std::uint8_t>& used() const { return used_; }
  // The gradient of this parameter is what its bucket holds.
  void define(std::size_t parameter);
  // Its gradients have travelled, and their memory is given back. Until the next round, grad() is
  // of NaN in a single element, which torch refuses to clip or to zero: nobody takes it for one.
  void release(std::size_t bucket);

 private:
  void before(std::size_t parameter);
  void after(std::size_t parameter);
  void adopt(std::size_t parameter);
  void forget_released(std::size_t parameter);
  bool in_place(std::size_t parameter) const;
  void leave();
  void hand_over(bool wait);
  void finish_locked();
  Buffer fill(std::size_t bucket);
  void begin_round();
  void give_back();
  void end_with_this_backward();

  // Constant after construction.
  Communicator& communicator_;
  const std::vector<NamedTensor> parameters_;
  const layout::BucketRules sizes_;
  const std::size_t notes_;
  BucketCarrier& carrier_;
  const GradientArena arena_;

  // Protected by mutex_: autograd may run a thread per device.
  mutable std::mutex mutex_;
  std::unique_ptr<Buckets> buckets_;
  bool sync_ = true;
  bool finished_ = false;
  int ending_ = -1;                           // the backward whose end ends the round
  std::vector<std::uint8_t> arrived_, used_;  // a parameter's, in this round
  std::vector<std::size_t> missing_;          // gradients that a bucket waits for
  std::size_t left_ = 0;                      // buckets that are complete
  std::size_t handed_over_ = 0;               // of them, those that the carrier has
  std::vector<Buffer> leaving_;               // what each of them is
  // By bucket: its gradient where that leaves in place, whatever the user does to grad().
  std::vector<torch::Tensor> travelling_;
  std::vector<torch::Tensor> released_;  // by parameter: what grad() is where the gradient has gone
  std::vector<std::size_t> arrivals_;    // of the first round
  bool recording_ = true;

  GradientHooks hooks_;  // last: nothing above goes while a hook may come
};

}  // namespace asup::sync
