// Averages gradients over the ranks by all-reduce while backward still runs.
//
// Buckets leave as the collector completes them, so that all ranks start the same calls in the same
// order. A gradient that comes a second time (a second backward before the step) first finishes the
// round and then begins another: averages add up as gradients do.
//
// Ranks that describe their batches are weighed by their samples: what leaves rank i is n_i times
// its gradient, and what comes back is divided by the mean of the n_i. That is known when all is
// there, so nothing waits for it before. Whether ranks describe travels in the last bucket.
//
// Whether any rank's gradients are infinite or NaN travels there as well (FiniteLook).
//
// Weights may travel in fewer bytes: in a code, or as a Compressor has them. Biases, norms and
// other small tensors do not. What is lost may be kept, and added to the gradient of the next step
// (Residuals).
//
// With shards, buckets leave by reduce-scatter, each rank keeps the averages of its part
// (ShardedGradients), and parameters have no gradients when the exchange has ended.
//
// Where a rank is lost, those who are left may exchange the same gradients once more: these are
// kept until their averages are there, where that is wanted (retake_by).
//
// Gradients arrive on autograd's threads, everything else is called by the thread that trains.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "asup/sync/compressors/compressor.h"
#include "asup/sync/gradients/finite_look.h"
#include "asup/sync/gradients/gradient_collector.h"
#include "asup/sync/gradients/gradient_noise.h"
#include "asup/sync/gradients/residuals.h"
#include "asup/sync/sharded/sharded_gradients.h"

namespace asup::sync {

struct GradientCode {
  kernels::Code code = kernels::Code::none;
  // What is lost is kept for the next step. Else a code that can round at random does.
  bool feedback = false;
  Compressor* compressor = nullptr;  // instead of a code; outlives the exchange
  bool tells = true;                 // where there is nothing that it changes

  bool changes() const { return code != kernels::Code::none || compressor; }
  // What is kept from step to step, by its names in a checkpoint.
  std::vector<std::string> keeps() const;
};

// Each rank keeps the averages of its part of the gradients.
struct GradientShards {
  bool whole_tensors = false;  // see layout/shards.h
};

class GradientExchange : private BucketCarrier {
 public:
  // Collective. `order`: see Buckets. `rules`: but for those of a code. `looks`: for gradients that
  // are not finite. All the same on all.
  GradientExchange(Communicator& communicator, std::vector<NamedTensor> parameters,
                   std::span<const std::size_t> order, layout::BucketRules rules, bool looks = true,
                   GradientCode code = {}, std::optional<GradientShards> shards = {});
  ~GradientExchange() override;

  // While false, gradients only add up here.
  void set_sync(bool sync) { collector_.set_sync(sync); }
  bool sync() const { return collector_.sync(); }

  // The samples of this step's gradients. Where some of them have left undescribed, it is too late
  // to weigh them, and the next step throws BadInput unless ranks had equally many.
  void describe(std::uint64_t samples);
  // The same of gradients that are weighed already: they are averaged as they are, and the noise
  // scale is told.
  void describe_weighed(std::uint64_t samples) { weighed_samples_ = samples; }

  // Collective. Ends what no backward has: gradients that were only added up, or put there by hand,
  // or are none on this rank. When it returns, a gradient that is defined on any rank is defined on
  // all, and is the average (of zeros where it was not defined); one that is defined on none is
  // left undefined. Throws JobFailed; what the gradients hold then is nothing to apply.
  void finish() { collector_.finish(); }
  // The optimizer has applied what finish() left, or it was dropped.
  void next_step(bool applied = true);

  // Of what the last exchange has averaged: the same on all ranks, and without a look at what came
  // back. True where it does not look.
  bool finite() const { return finite_.finite(); }

  // What is kept of the averages, with shards; else null. And whether a parameter has a gradient on
  // any rank, when the exchange has ended.
  ShardedGradients* shards() { return shards_.get(); }
  const std::vector<std::uint8_t>& used_anywhere() const { return used_anywhere_; }

  // What is to be done where a call of a round has failed: it says whether those who are left are
  // together, and then the round's gradients leave once more, unless it has called one of the next
  // two. From now on they are kept. Not with shards.
  void retake_by(std::function<bool()> regroup) { regroup_ = std::move(regroup); }
  // The round that failed here gets the averages that a rank holds, which has ended it. Collective,
  // of all who are left.
  void take_averages(int rank);
  // Or the step was made without this rank's round, and there is nothing to apply.
  void end_elsewhere();
  // Rounds of this step that have ended here, and whether no other has begun since.
  std::uint64_t rounds() const { return rounds_; }
  bool holds_averages() const { return rounds_ > 0 && !in_round_; }
  // The communicator has other ranks now.
  void go_on_with_the_others() { noise_.go_on_with(communicator_.size()); }

  // See GradientCollector.
  std::vector<std::size_t> observed_order() const { return collector_.observed_order(); }
  void rebuild(std::span<const std::size_t> order);

  // Of what travels in fewer bytes, for a checkpoint: exchanges so far, by which a code draws at
  // random; and what is kept, by parameters, this rank's part of it.
  std::uint64_t exchanges() const { return exchanges_; }
  void set_exchanges(std::uint64_t exchanges) { exchanges_ = exchanges; }
  std::vector<NamedTensor> residuals() const;
  // Of what has still to be applied, this rank's part of it.
  double residual_norm() const { return residuals_.empty() ? 0 : residuals_.front().norm(); }
  // What they are in, in samples; 0: they are zeros.
  double residual_unit() const { return residuals_.empty() ? 0 : residuals_.front().unit(); }
  // They are this rank's, by the names of residuals(), in such a unit. Collective where ranks share
  // them out.
  void restore_residuals(std::span<const NamedTensor> tensors, double unit);

  // After a loss: what is kept becomes what it is when the step under way has been applied, as it
  // was on another rank; where that is not known here, it stays. Nothing but residuals() is to be
  // asked then.
  void end_step_of_residuals();

  // What of it is still to be applied, as the average over ranks, by parameter; undefined where
  // there is none. It is kept no more, and neither is the rest. Collective.
  std::vector<torch::Tensor> take_residuals();
  void clear_residuals();

  // Of ranks that describe their batches (base/noise_scale.h); the same on all.
  std::optional<double> noise_scale() const { return noise_.noise_scale(); }

  double wait_seconds() const { return wait_seconds_; }
  double exchange_seconds() const { return exchange_seconds_; }
  const Buckets& buckets() const { return collector_.buckets(); }
  // Whether the parameter's gradient travels in fewer bytes.
  bool coded(std::size_t parameter) const {
    return buckets().coded(buckets().bucket_of(parameter));
  }

 private:
  bool ends_with_backward() const override { return true; }
  bool wants_peaks() const override { return finite_.looks(); }
  bool releases() const override { return shards_ != nullptr; }
  void carry(std::size_t bucket, Buffer buffer) override;
  void finish_round() override;
  bool try_to_end_round();
  void end_round();
  void keep(std::size_t bucket, const Buffer& gradients);
  void leave_again();
  void close_round();
  void second_backward() override { one_round_ = false; }  // finishing the round is all else
  void watch() override;
  void about_to_wait() override;

  bool describes() const { return samples_.has_value() || late_samples_.has_value(); }
  double step_note() const;
  void look(std::size_t bucket, const Buffer& gradients);
  void begin_round();
  void find_unit();
  Work leave(std::size_t bucket, const Buffer& buffer);
  Coding coding(std::size_t bucket) const;
  void write_notes();
  void read_notes();
  double weigh();
  void watch_noise();
  bool arrive(std::size_t bucket);
  void release_those_before(std::size_t bucket);
  void bring_back();
  std::vector<std::uint8_t> share_unused();
  void add_used(const std::vector<std::uint8_t>& used);
  void wait_for_works();

  Communicator& communicator_;
  const GradientCode code_;

  // Under the collector's lock.
  std::uint64_t step_ = 0;
  std::vector<Work> works_;      // of the buckets that have left, in order
  std::vector<bool> arrived_;    // of them, whose buffer has the average
  std::size_t returned_ = 0;     // and those that are back where the model is
  std::size_t released_ = 0;     // and, with shards, whose gradients have gone
  std::vector<Buffer> weighed_;  // what left times our samples
  std::optional<std::uint64_t> samples_, late_samples_;  // of this step, of the one before
  std::optional<std::uint64_t> weighed_samples_;         // of this step
  double unit_ = 1;             // of this step's gradients, as they leave: Residuals::set_unit()
  bool one_round_ = true;       // so far in this step
  bool has_left_ = false;       // of this step, the first bucket
  bool is_first_round_ = true;  // of this step, the one under way
  bool under_way_ = false;
  Clock::time_point under_way_since_;
  // Of the round under way: what has left, and what that was.
  std::function<bool()> regroup_;
  std::vector<Buffer> left_;
  std::vector<std::vector<std::byte>> kept_;
  bool in_round_ = false;
  std::uint64_t rounds_ = 0;  // of this step, that have ended
  double wait_seconds_ = 0, exchange_seconds_ = 0;
  double mean_samples_ = 1;  // of ranks that describe their batches, as last known
  FiniteLook finite_;
  GradientNoise noise_;
  std::uint64_t exchanges_ = 0;
  std::vector<Residuals> residuals_;  // what is kept, as GradientCode says
  std::unique_ptr<ShardedGradients> shards_;
  std::vector<std::uint8_t> used_anywhere_;  // with shards: by parameter, in this step

  GradientCollector collector_;  // last: its hooks use all above
};

}  // namespace asup::sync
