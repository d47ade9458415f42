#include "asup/sync/gradients/gradient_exchange.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "asup/base/error.h"
#include "asup/base/seed.h"
#include "asup/base/timeline.h"

namespace asup::sync {
namespace {

// Notes that travel in the last bucket, and come back as averages.
enum Note : std::size_t {
  kUnused,     // 1 where a gradient did not come
  kStepBit,    // the step's lowest bit: ranks whose rounds slipped against each other differ in it;
               // kDescribed more on those that describe their batches
  kNotFinite,  // 1 where a gradient is infinite or NaN
  kTold,       // from here on: GradientNoise::Notes
  kSamples,
  kInverseSamples,
  kSquares,
  kNotes
};
constexpr double kDescribed = 4;
// With shards, of buckets: those whose memory is in use beside the one that is filled.
constexpr std::size_t kTravelling = 2;

void scale(const Buffer& buffer, double factor) {
  torch::NoGradGuard no_grad;
  torch::from_blob(buffer.data, {static_cast<std::int64_t>(buffer.count)},
                   scalar_type_of(buffer.dtype))
      .mul_(factor);
}

std::function<bool(const torch::Tensor&)> those_in(const GradientCode& code) {
  if (!code.changes()) return nullptr;
  if (!code.compressor) return is_large_weight;
  return [compressor = code.compressor](const torch::Tensor& tensor) {
    return tensor.scalar_type() == torch::kFloat32 && compressor->takes(tensor);
  };
}

std::unique_ptr<ShardedGradients> make_shards(Communicator& communicator,
                                              const std::vector<NamedTensor>& parameters,
                                              std::span<const std::size_t> order,
                                              const layout::BucketRules& rules,
                                              const std::optional<GradientShards>& shards) {
  if (!shards) return nullptr;
  return std::make_unique<ShardedGradients>(communicator, parameters,
                                            layout::lay_out(shapes_of(parameters), order, rules),
                                            shards->whole_tensors);
}

// Every rank's samples of a step; kNone where it described none.
constexpr double kNone = -1;

double number_of(const std::optional<std::uint64_t>& samples) {
  return samples ? static_cast<double>(*samples) : kNone;
}

void require_equal(const std::vector<double>& late) {
  const auto [least, most] = std::minmax_element(late.begin(), late.end());
  require(*least == *most,
          "the ranks' batches of the last step had {} to {} samples, and were described after "
          "backward(), when their gradients had been averaged alike: call describe_batch() before "
          "the (last) backward() of a step",
          std::max(*least, 0.0), *most);
}

double mean_of(const std::vector<double>& samples) {
  const auto [least, most] = std::minmax_element(samples.begin(), samples.end());
  require(*least != kNone || *most == kNone,
          "some ranks described the batch of this step before its backward() and others did not: "
          "call describe_batch() on all of them, before the (last) backward() of each step");
  return std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
}

}  // namespace

std::vector<std::string> GradientCode::keeps() const {
  if (compressor) return compressor->keeps();
  return feedback ? std::vector<std::string>{""} : std::vector<std::string>{};
}

GradientExchange::GradientExchange(Communicator& communicator, std::vector<NamedTensor> parameters,
                                   std::span<const std::size_t> order, layout::BucketRules rules,
                                   bool looks, GradientCode code,
                                   std::optional<GradientShards> shards)
    : communicator_(communicator),
      code_(code),
      finite_(looks, communicator.size()),
      noise_(total_bytes(parameters),
             code.feedback || code.compressor || shards ? 1 : communicator.size()),
      shards_(make_shards(communicator, parameters, order, rules, shards)),
      collector_(communicator, parameters, order,
                 with_coded(std::move(rules), parameters, those_in(code),
                            code.tells && communicator.rank() == 0),
                 kNotes, *this) {
  const std::size_t kept = code.keeps().size();
  for (std::size_t i = 0; i < kept; ++i)
    residuals_.emplace_back(collector_.buckets(), collector_.parameters(), code.compressor);
}

// Peers may still read our buckets.
GradientExchange::~GradientExchange() {
  for (Work& work : works_) (void)work.wait();
}

void GradientExchange::describe(std::uint64_t samples) {
  if (!has_left_)
    samples_ = samples;
  else if (!samples_)
    late_samples_ = samples;
}

void GradientExchange::carry(std::size_t bucket, Buffer buffer) {
  if (bucket == 0) {
    works_.clear();
    left_.clear();
    weighed_.clear();
    in_round_ = true;
    arrived_.assign(collector_.buckets().size(), false);
    returned_ = released_ = 0;
    finite_.begin();
    noise_.begin(step_);
    // What was described since is of this step again where it has a second backward.
    if (has_left_ && late_samples_) samples_ = std::exchange(late_samples_, std::nullopt);
    begin_round();
    has_left_ = true;
  }
  const bool is_last = bucket + 1 == collector_.buckets().size();
  const Buffer gradients{buffer.data, buffer.count - (is_last ? std::size_t{kNotes} : 0),
                         buffer.dtype};
  look(bucket, gradients);
  if (is_last) write_notes();
  if (samples_) {
    scale(gradients, static_cast<double>(*samples_));
    if (!shards_) weighed_.push_back(gradients);
  }
  if (shards_ && bucket >= kTravelling) release_those_before(bucket - kTravelling + 1);
  if (!under_way_) under_way_since_ = Clock::now();
  under_way_ = true;
  if (regroup_) keep(bucket, buffer);
  const TimelineLabelled labelled({.bucket = static_cast<int>(bucket)});
  works_.push_back(leave(bucket, buffer));
}

void GradientExchange::begin_round() {
  is_first_round_ = !has_left_;
  if (shards_) shards_->begin(is_first_round_);
  if (is_first_round_) find_unit();
  for (Residuals& residuals : residuals_) {
    if (!is_first_round_)
      residuals.next_round();
    else if (unit_ > 0)  // a rank without samples has only what it carries to tell
      residuals.set_unit(unit_);
  }
}

void GradientExchange::find_unit() {
  unit_ = samples_ ? static_cast<double>(*samples_) : 1;
  if (samples_ && code_.compressor) unit_ = code_.compressor->unit_of(unit_);
}

Work GradientExchange::leave(std::size_t bucket, const Buffer& buffer) {
  const Buckets& buckets = collector_.buckets();
  const bool is_last = bucket + 1 == buckets.size();  // with shards, of notes alone
  if (shards_ && !is_last) return shards_->start(bucket, buffer);
  if (!code_.compressor || !buckets.coded(bucket))
    return communicator_.start_all_reduce(buffer, ReduceOp::average, coding(bucket));
  Compressor::Bucket leaving{.index = bucket,
                             .gradients = buffer,
                             .tensors = buckets.layout(bucket).tensors,
                             .kept = {},
                             .unit = unit_,
                             .exchange = exchanges_,
                             .adds = !is_first_round_};
  const TimelineScope scope(Activity::encode);
  for (const Residuals& residuals : residuals_)
    leaving.kept.push_back({residuals.carried(bucket), residuals.lost(bucket)});
  return code_.compressor->leave(leaving);
}

// With shards: waits for their calls, and lets go of those that have ended well.
void GradientExchange::release_those_before(std::size_t bucket) {
  for (; released_ < bucket; ++released_) {
    if (!works_[released_].wait().ok()) return;
    collector_.release(released_);
  }
}

// Its call is done. Whether that was the last: another is under way now where it was not.
bool GradientExchange::arrive(std::size_t bucket) {
  if (arrived_[bucket]) return true;
  const TimelineLabelled labelled({.bucket = static_cast<int>(bucket)});
  if (code_.compressor && collector_.buckets().coded(bucket))
    if (auto another = code_.compressor->arrive(bucket)) {
      works_[bucket] = std::move(*another);
      return false;
    }
  arrived_[bucket] = true;
  return true;
}

Coding GradientExchange::coding(std::size_t bucket) const {
  Coding coding;
  if (!collector_.buckets().coded(bucket)) return coding;
  coding.code = code_.code;
  if (!residuals_.empty()) {
    coding.carried = residuals_[0].carried(bucket);
    coding.lost = residuals_[0].lost(bucket);
  } else {
    coding.noise = seed_of(exchanges_ * collector_.buckets().size() + bucket);
  }
  return coding;
}

// Where the norm is found, or a GPU has told of the bucket, one pass over it is spared.
void GradientExchange::look(std::size_t bucket, const Buffer& gradients) {
  double bound = collector_.buckets().peak(bucket);
  if (noise_.looks()) bound = noise_.leaves(gradients);
  const bool as_f16 = code_.code == kernels::Code::f16 && collector_.buckets().coded(bucket);
  finite_.leaves(gradients, samples_ ? static_cast<double>(*samples_) : 1, bound, as_f16);
}

void GradientExchange::write_notes() {
  const auto& used = collector_.used();
  const bool unused = std::find(used.begin(), used.end(), 0) != used.end();
  Buckets& buckets = collector_.buckets();
  buckets.write_note(kUnused, unused ? 1 : 0);
  buckets.write_note(kStepBit, step_note());
  buckets.write_note(kNotFinite, finite_.note());
  GradientNoise::Notes notes;
  if (noise_.looks())
    notes = samples_ ? noise_.notes(*samples_, false)
                     : noise_.notes(weighed_samples_.value_or(0), true);
  buckets.write_note(kTold, notes.told);
  buckets.write_note(kSamples, notes.samples);
  buckets.write_note(kInverseSamples, notes.inverse_samples);
  buckets.write_note(kSquares, notes.squares);
}

double GradientExchange::step_note() const {
  return static_cast<double>(step_ % 2) + (describes() ? kDescribed : 0);
}

void GradientExchange::finish_round() {
  while (!try_to_end_round()) leave_again();
}

// False where its gradients are to leave once more.
bool GradientExchange::try_to_end_round() {
  try {
    end_round();
  } catch (const JobFailed&) {
    if (!regroup_ || !regroup_()) throw;
  }
  return !in_round_;
}

void GradientExchange::end_round() {
  wait_for_works();
  if (shards_) release_those_before(works_.size() - 1);  // the last is of notes
  read_notes();
  const double factor = describes() ? weigh() : 1;
  if (shards_) shards_->end_round(factor);
  close_round();
  if (noise_.looks()) watch_noise();
}

// The averages are there.
void GradientExchange::close_round() {
  bring_back();
  finite_.ends(collector_.buckets().note(kNotFinite));
  ++exchanges_;
  ++rounds_;
  in_round_ = false;
}

// GPUs get the averages meanwhile.
void GradientExchange::watch_noise() {
  const Buckets& buckets = collector_.buckets();
  noise_.compare({.told = buckets.note(kTold),
                  .samples = buckets.note(kSamples),
                  .inverse_samples = buckets.note(kInverseSamples),
                  .squares = buckets.note(kSquares)},
                 !samples_);
}

// By what the averages that have come are to be multiplied, and are, but for those of shards.
// needs: all ranks describe
double GradientExchange::weigh() {
  const auto start = Clock::now();
  const auto ranks = static_cast<std::size_t>(communicator_.size());
  std::array<double, 2> mine{number_of(samples_), number_of(late_samples_)};
  std::vector<double> all(ranks * mine.size()), now, before;
  communicator_.all_gather(buffer_of(std::span(mine)), buffer_of(std::span(all)))
      .or_throw("weighing gradients by their samples");
  for (std::size_t i = 0; i < all.size(); i += mine.size()) {
    now.push_back(all[i]);
    before.push_back(all[i + 1]);
  }
  late_samples_.reset();
  require_equal(before);
  const double mean = mean_of(now);
  if (mean > 0) mean_samples_ = mean;  // 0: nobody has any, and what travels was kept from before
  const double factor = samples_ ? 1 / mean_samples_ : 1;
  if (samples_)
    for (const Buffer& buffer : weighed_) scale(buffer, factor);
  wait_seconds_ += seconds_since(start);
  return factor;
}

void GradientExchange::bring_back() {
  for (; returned_ < works_.size(); ++returned_) collector_.buckets().to_device(returned_);
}

void GradientExchange::wait_for_works() {
  const auto start = Clock::now();
  Outcome failure;
  for (bool has_more = true; has_more && failure.ok();) {
    has_more = false;
    for (std::size_t bucket = 0; bucket < works_.size(); ++bucket) {
      const Outcome outcome = works_[bucket].wait();
      if (failure.ok()) failure = outcome;
      if (!failure.ok()) continue;
      if (!arrive(bucket)) has_more = true;
      if (bucket != returned_ || !arrived_[bucket] || samples_) continue;
      collector_.buckets().to_device(bucket);
      ++returned_;
    }
  }
  wait_seconds_ += seconds_since(start);
  watch();
  failure.or_throw(fmt::format("averaging the gradients of step {}", step_));
}

// Averages that are there go back meanwhile.
void GradientExchange::about_to_wait() {
  if (samples_) return;                                           // they are still to be weighed
  if (code_.compressor && code_.compressor->calls() > 1) return;  // which come in one order
  for (; returned_ < works_.size() && works_[returned_].done(); ++returned_) {
    if (!works_[returned_].wait().ok()) return;
    check(arrive(returned_),
          "a compressor has several calls for a bucket and says that it has one");
    collector_.buckets().to_device(returned_);
  }
}

void GradientExchange::read_notes() {
  // 16-bit floats count exactly only so far: half a rank's part, but never less than their error.
  const double tolerance = std::max(0.5 / communicator_.size(), 0.01 * std::max(1.0, step_note()));
  const Buckets& buckets = collector_.buckets();
  const double note = buckets.note(kStepBit);
  if (std::abs(note - step_note()) > tolerance) {
    require(note <= 1 + tolerance || note >= kDescribed - tolerance,
            "in step {} some ranks described their batch and others did not, so that they cannot "
            "be weighed by their samples: call describe_batch() on all ranks, or on none",
            step_);
    throw JobFailed(
        fmt::format("in step {} the ranks average gradients of different steps: every rank must "
                    "call backward equally often (with synchronization on) before each step(); one "
                    "without data may call step() alone. Or some of them call describe_batch(), "
                    "and others do not",
                    step_));
  }
  std::vector<std::uint8_t> used = collector_.used();
  if (buckets.note(kUnused) > 0) used = share_unused();
  if (shards_) add_used(used);
}

void GradientExchange::add_used(const std::vector<std::uint8_t>& used) {
  if (is_first_round_) used_anywhere_.assign(used.size(), 0);
  for (std::size_t i = 0; i < used.size(); ++i) used_anywhere_[i] |= used[i];
}

// Some rank has gradients that did not come. Those that came on another rank have an average here
// too; those that came nowhere stay as they are, so that no optimizer moves their parameters.
std::vector<std::uint8_t> GradientExchange::share_unused() {
  const auto start = Clock::now();
  std::vector<std::uint8_t> anywhere = collector_.used();
  const Outcome outcome = communicator_.all_reduce(buffer_of(std::span(anywhere)), ReduceOp::max);
  wait_seconds_ += seconds_since(start);
  outcome.or_throw();
  for (std::size_t i = 0; i < anywhere.size(); ++i) {
    if (anywhere[i] && !collector_.used()[i] && !shards_) collector_.define(i);
    if (anywhere[i]) continue;
    for (Residuals& residuals : residuals_) residuals.drop(i);
  }
  return anywhere;
}

void GradientExchange::rebuild(std::span<const std::size_t> order) {
  check(!shards_, "gradients that are cut into shards keep their order");
  collector_.rebuild(order);
  for (Residuals& residuals : residuals_) residuals.move_to(collector_.buckets());
}

void GradientExchange::restore_residuals(std::span<const NamedTensor> tensors, double unit) {
  if (residuals_.empty()) return;
  if (code_.compressor) unit = code_.compressor->unit_of(unit);
  const std::vector<std::string> prefixes = code_.keeps();
  for (std::size_t i = 0; i < residuals_.size(); ++i) {
    residuals_[i].restore(tensors, prefixes[i]);
    residuals_[i].restore_unit(unit);
  }
}

std::vector<torch::Tensor> GradientExchange::take_residuals() {
  std::vector<torch::Tensor> taken(collector_.parameters().size());
  double unit = residual_unit();
  communicator_.all_reduce(buffer_of(std::span(&unit, 1)), ReduceOp::average).or_throw();
  if (unit <= 0) return taken;
  const auto kept = residuals_.front().by_parameter();
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (!kept[i].defined()) continue;
    taken[i] = kept[i].clone();
    communicator_.all_reduce(buffer_of(taken[i]), ReduceOp::average).or_throw();
    taken[i].div_(unit);
  }
  clear_residuals();
  return taken;
}

void GradientExchange::clear_residuals() {
  for (Residuals& residuals : residuals_) residuals.clear();
}

std::vector<NamedTensor> GradientExchange::residuals() const {
  const std::vector<std::string> prefixes = code_.keeps();
  std::vector<NamedTensor> all;
  for (std::size_t i = 0; i < residuals_.size(); ++i)
    for (auto& [name, tensor] : residuals_[i].tensors())
      all.push_back({prefixes[i] + name, tensor});
  return all;
}

void GradientExchange::next_step(bool applied) {
  collector_.next_round();
  // One rank codes nothing.
  const bool has_travelled = communicator_.size() > 1 || code_.compressor;
  for (Residuals& residuals : residuals_) residuals.end_step(applied && has_travelled);
  if (code_.compressor) code_.compressor->end_step(applied);
  ++step_;
  noise_.end_step(one_round_);
  one_round_ = true;
  samples_.reset();
  weighed_samples_.reset();
  has_left_ = false;
  rounds_ = 0;
}

// Notes when the exchange came to an end, as closely as gradients arrive.
void GradientExchange::watch() {
  if (!under_way_ || !works_.back().done()) return;
  under_way_ = false;
  exchange_seconds_ += seconds_since(under_way_since_);
}

}  // namespace asup::sync
