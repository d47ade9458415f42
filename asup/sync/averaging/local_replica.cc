#include "asup/sync/averaging/local_replica.h"

#include <algorithm>
#include <array>

#include "asup/base/error.h"
#include "asup/base/seed.h"
#include "asup/sync/averaging/exchange_dtype.h"
#include "asup/sync/averaging/local_update_replica.h"
#include "asup/sync/model/optimizer_state.h"

namespace asup {
namespace {

constexpr std::size_t kIntervalText = 150;  // characters; five numbers in words have fewer

std::string describe(const std::optional<AdaptiveIntervalOptions>& interval) {
  if (!interval) return "no";
  return fmt::format("{} steps at first, {} s", interval->first_steps, interval->seconds.count());
}

std::string_view name_of(MergeState state) {
  switch (state) {
    case MergeState::average:
      return "average";
    case MergeState::keep:
      return "keep";
    case MergeState::reset:
      return "reset";
  }
  return "?";
}

std::vector<sync::AgreedValue> agreed_values(const LocalOptions& options) {
  return {{"setting every", std::to_string(options.every)},
          {"setting adaptive", describe(options.adaptive)},
          {"setting local_after", std::to_string(options.local_after)},
          {"setting state", std::string(name_of(options.state))},
          {"setting code", std::string(kernels::name_of(options.code))},
          {"setting observed", options.observed.empty() ? "nothing" : options.observed}};
}

class LocalReplica final : public sync::LocalUpdateReplica {
 public:
  LocalReplica(Communicator& communicator, torch::nn::Module& module,
               torch::optim::Optimizer& optimizer, const LocalOptions& options);

  void synchronize() override;
  void regroup() override;
  std::string observed() const override { return interval_ ? interval_->to_text() : ""; }
  ReplicaState state() override;
  void restore(const ReplicaState& state) override;
  bool keeps_own_optimizer() const override { return options_.state == MergeState::keep; }

 private:
  // What all ranks know when a round is over.
  struct Round {
    double weight = 1;              // of this rank's model; the sum over ranks is 1
    bool equal = true;              // all weights are
    double loss = 0;                // mean over samples
    Seconds took{0};                // the slowest rank
    bool state_same = true;         // the optimizers have the same tensors
    bool same_past = true;          // in a code: all have ended the same merges, one at least
    std::int64_t coded_merges = 0;  // the most that one has ended
  };

  // Of the optimizers.
  struct AveragedState {
    sync::OptimizerState::Counts counts;
    std::vector<torch::Tensor> kinds;  // each as one row
  };

  void before_step() override;
  void after_step() override;
  bool has_moved() const override { return since_merge_ > 0 || must_merge_; }
  std::int64_t interval() const;
  enum class What { usual, all };  // of the models, where a code keeps what is lost
  void merge(What what = What::usual);
  Round meet();
  AveragedState average_state(const Round& round);
  void take(const AveragedState& state);
  void average(const Round& round, std::span<const torch::Tensor> tensors, kernels::Code code);
  void average_models(const Round& round, What what);
  void take_past(const Round& round);
  bool is_coded() const { return options_.code != kernels::Code::none; }

  // Constant after construction.
  const LocalOptions options_;

  std::optional<sync::AdaptiveInterval> interval_;
  Clock::time_point round_began_ = Clock::now();
  std::optional<sync::OptimizerState> state_;  // unless each keeps its own
  torch::Tensor shared_;                       // in a code: the model of the last merge,
  torch::Tensor lost_, lost_after_;            // and what it has lost, before a merge and after
  std::int64_t coded_merges_ = 0;              // since there is one
  std::int64_t since_merge_ = 0;               // steps
  bool must_merge_ = false;                    // some may have ended a merge that others missed
};

LocalReplica::LocalReplica(Communicator& communicator, torch::nn::Module& module,
                           torch::optim::Optimizer& optimizer, const LocalOptions& options)
    : LocalUpdateReplica(communicator, module, optimizer, agreed_values(options), options.jitter),
      options_(options) {
  require(options.every >= 0 && options.local_after >= 0,
          "models cannot be merged every {} steps after {} steps", options.every,
          options.local_after);
  if (options.adaptive) interval_.emplace(*options.adaptive, options.observed);
  if (options.state != MergeState::keep) state_.emplace(optimizer, flat().parameters());
  if (!is_coded()) return;
  require(flat().all().scalar_type() == torch::kFloat32,
          "codes are for models in f32, and this one is in {}",
          torch::toString(flat().all().scalar_type()));
  if (!sync::keeps_what_is_lost(options.code)) return;
  lost_ = torch::zeros_like(flat().all());
  lost_after_ = torch::zeros_like(flat().all());
}

std::int64_t LocalReplica::interval() const {
  if (steps() <= static_cast<std::uint64_t>(options_.local_after)) return 1;
  return interval_ ? interval_->steps() : options_.every;
}

// What a merge was weighed by is forgotten here, not when it is over: those who have ended it may
// have to merge once more with others who have not.
void LocalReplica::before_step() {
  if (since_merge_ == 0) set_batches({});
}

void LocalReplica::after_step() {
  ++since_merge_;
  if (interval() > 0 && since_merge_ >= interval()) merge();
}

// Where each merges at its own count of steps, only all of them know whether there is anything new.
void LocalReplica::synchronize() {
  if (since_merge_ > 0 || options_.every == 0 || must_merge_) merge(What::all);
}

// The interval is in observed().
ReplicaState LocalReplica::state() {
  const Batches& own = batches();
  ReplicaState state{
      {{"steps since the merge", torch::tensor({since_merge_}, torch::kInt64)}},
      {{"samples and losses since the merge",
        torch::tensor({own.samples, own.loss, own.described ? 1.0 : 0.0}, torch::kFloat64)}}};
  if (!is_coded()) return state;
  const bool has_shared = shared_.defined();
  state.common.push_back(
      {"model of the last merge", has_shared ? shared_ : torch::zeros_like(flat().all())});
  state.common.push_back({"merges in a code", torch::tensor({coded_merges_}, torch::kInt64)});
  if (lost_.defined()) state.parts = {{"lost by merges", lost_}};
  return state;
}

void LocalReplica::restore(const ReplicaState& state) {
  since_merge_ = state.common[0].tensor[0].item<std::int64_t>();
  const auto own = state.own[0].tensor.accessor<double, 1>();
  set_batches({own[0], own[1], own[2] != 0});
  if (!is_coded()) return;
  if (lost_.defined()) lost_.copy_(state.parts[0].tensor);
  coded_merges_ = state.common[2].tensor[0].item<std::int64_t>();
  if (coded_merges_ > 0) shared_ = state.common[1].tensor.clone();
}

// The interval becomes that of a worker that has ended most merges.
void LocalReplica::regroup() {
  must_merge_ = true;
  if (!interval_) return;
  const auto merges = counts_of_all(static_cast<std::int64_t>(stats().merges));
  const auto furthest = std::max_element(merges.begin(), merges.end()) - merges.begin();
  std::string text = interval_->to_text();
  text.resize(kIntervalText, ' ');
  expect(
      communicator().broadcast({text.data(), text.size(), Dtype::u8}, static_cast<int>(furthest)));
  interval_.emplace(*options_.adaptive, text);
}

// Should an exchange fail, a worker still has its own model, and the optimizer's state of it.
void LocalReplica::merge(What what) {
  apply_jitter();
  const auto start = Clock::now();
  const Round round = meet();
  const AveragedState state = average_state(round);
  average_models(round, what);
  find_distance();
  ask_all();
  flat().give(flat().parameters());
  if (is_coded()) take_past(round);
  take(state);
  if (interval_)
    interval_->after_round(round.loss, optimizer().param_groups().front().options().get_lr(),
                           round.took);
  round_began_ = Clock::now();
  since_merge_ = 0;
  must_merge_ = false;
  merged();
  exchanged(start);
  waited(start);
}

LocalReplica::Round LocalReplica::meet() {
  const Batches& own = batches();
  check(own.described || !interval_,
        "the interval between merges cannot follow a loss that nobody tells: call "
        "describe_batch() before each step(), or give a fixed interval");
  const auto ranks = static_cast<std::size_t>(communicator().size());
  std::array<double, 5> mine{own.samples, own.loss, state_ ? state_->fingerprint() : 0,
                             seconds_since(round_began_), static_cast<double>(coded_merges_)};
  std::vector<double> all(ranks * mine.size());
  expect(communicator().all_gather(buffer_of(std::span(mine)), buffer_of(std::span(all))));
  Round round;
  double samples = 0, loss = 0;
  for (std::size_t i = 0; i < all.size(); i += mine.size()) {
    samples += all[i];
    loss += all[i + 1];
    round.equal = round.equal && all[i] == all[0];
    round.state_same = round.state_same && all[i + 2] == all[2];
    round.took = std::max(round.took, Seconds(all[i + 3]));
    round.same_past = round.same_past && all[i + 4] > 0 && all[i + 4] == all[4];
    round.coded_merges = std::max(round.coded_merges, static_cast<std::int64_t>(all[i + 4]));
  }
  round.weight = round.equal ? 1 / static_cast<double>(ranks) : own.samples / samples;
  round.loss = loss / samples;
  return round;
}

LocalReplica::AveragedState LocalReplica::average_state(const Round& round) {
  AveragedState state;
  if (options_.state != MergeState::average) return state;
  state.counts = round.state_same ? state_->counts() : state_->most_counts(communicator());
  for (const auto& tensors : state_->tensors(state.counts)) {
    average(round, tensors, is_coded() ? kernels::Code::bf16 : kernels::Code::none);
    state.kinds.push_back(flat().all().clone());
  }
  return state;
}

void LocalReplica::take(const AveragedState& state) {
  if (options_.state == MergeState::reset) state_->reset();
  if (options_.state != MergeState::average) return;
  state_->complete(state.counts);
  const auto kinds = state_->tensors();
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    flat().all().copy_(state.kinds[kind]);
    flat().give(kinds[kind]);
  }
}

// The ranks' tensors, each times its weight, added up, come to lie in flat().
void LocalReplica::average(const Round& round, std::span<const torch::Tensor> tensors,
                           kernels::Code code) {
  flat().take(tensors);
  if (!round.equal) flat().all().mul_(round.weight);
  Coding coding;
  coding.code = code;
  expect(communicator()
             .start_all_reduce(asup::buffer_of(flat().all()),
                               round.equal ? ReduceOp::average : ReduceOp::sum, coding)
             .wait());
}

// The same of the models. Without a past that all share, at first and where some have missed a
// merge, they travel whole. What a code loses is in units of a model that counts as one of n.
void LocalReplica::average_models(const Round& round, What what) {
  const int ranks = communicator().size();
  if (lost_.defined()) lost_after_.copy_(lost_);
  if (!is_coded() || !round.same_past || ranks == 1 || (what == What::all && lost_.defined()))
    return average(round, flat().parameters(), kernels::Code::none);
  flat().take(flat().parameters());
  flat().all().sub_(shared_).mul_(round.equal ? 1 : round.weight * ranks);
  Coding coding;
  coding.code = options_.code;
  if (lost_.defined()) {
    coding.carried = lost_.const_data_ptr<float>();
    coding.lost = lost_after_.data_ptr<float>();
  } else {
    coding.noise = seed_of(static_cast<std::uint64_t>(coded_merges_));
  }
  expect(communicator()
             .start_all_reduce(asup::buffer_of(flat().all()), ReduceOp::average, coding)
             .wait());
  flat().all().add_(shared_);
}

// What all have now is what the next merge's differences are from. What one had lost that has
// missed a merge may be in what came of it.
void LocalReplica::take_past(const Round& round) {
  const bool missed = coded_merges_ < round.coded_merges;
  shared_ = shared_.defined() ? shared_.copy_(flat().all()) : flat().all().clone();
  coded_merges_ = round.coded_merges + 1;
  if (!lost_.defined()) return;
  std::swap(lost_, lost_after_);
  if (missed) lost_.zero_();
}

}  // namespace

std::unique_ptr<sync::LocalUpdateReplica> make_local_replica(Communicator& communicator,
                                                             torch::nn::Module& module,
                                                             torch::optim::Optimizer& optimizer,
                                                             const LocalOptions& options) {
  return std::make_unique<LocalReplica>(communicator, module, optimizer, options);
}

}  // namespace asup
