#include "asup/distribute/distribute.h"

#include <fmt/ranges.h>

#include <cstdlib>
#include <numeric>
#include <typeinfo>

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/collective/mesh/mesh_communicator.h"
#include "asup/collective/mesh/subgroup_communicator.h"
#include "asup/collective/text_exchange.h"
#include "asup/collective/tuning/start.h"
#include "asup/distribute/beside_tables.h"
#include "asup/distribute/recorded_timeline.h"
#include "asup/distribute/variables.h"
#include "asup/distribute/ways.h"
#include "asup/net/membership/roles.h"
#include "asup/sync/averaging/local_update_replica.h"
#include "asup/sync/gradients/finite_steps.h"
#include "asup/sync/model/optimizer_state.h"
#include "asup/sync/model/trained_model.h"

namespace asup {
namespace {

// By what they have, or by exchanging once more what was computed.
bool goes_on(const Capabilities& way) { return way.survives_loss || way.exchanges_again; }

// Ways whose workers go on, with their usual options.
std::vector<std::string_view> names_of_survivors() {
  std::vector<std::string_view> names;
  for (const Way* way : ways())
    if (goes_on(way->capabilities(way->usual()))) names.push_back(way->name);
  return names;
}

void check_for_program(const Job& job, const Strategy& strategy, bool servers_keep_tables) {
  strategy.check();
  const Capabilities capabilities = strategy.capabilities();
  check_roles(job, strategy, capabilities.needs_servers || servers_keep_tables);
  require(capabilities.round.count() == 0,
          "round-seconds = {:g} is for asup train: in a program of your own, call the replica's "
          "synchronize() when the time is over",
          capabilities.round.count());
  if (job.rank() == 0 && job.options().goes_on_after_loss && !goes_on(capabilities))
    log().warn(
        "--on-loss continue: by sync = {}, as it is set, workers cannot go on without one of them, "
        "and a loss ends the job. They can by {}.",
        strategy.name(), fmt::join(names_of_survivors(), ", "));
}

// Who has missed a step takes over what came of it.
void require_known_state(const torch::optim::Optimizer& optimizer) {
  require(sync::OptimizerState::knows(optimizer),
          "--on-loss continue: after a loss, workers may go on with the state of another's "
          "optimizer, and nothing is known of that of {}. Leave --on-loss out, or use SGD, Adam, "
          "AdamW, RMSprop or Adagrad of torch::optim, an optimizer of asup's, or a type derived "
          "from one of these",
          c10::demangle(typeid(optimizer).name()));
}

// True in a scope.
class Within {
 public:
  explicit Within(bool& flag) : flag_(flag) { flag_ = true; }
  ~Within() { flag_ = false; }
  Within(const Within&) = delete;
  Within& operator=(const Within&) = delete;

 private:
  bool& flag_;
};

}  // namespace

DistributedReplica::DistributedReplica(Job& job, Parts parts)
    : strategy_(std::move(parts.strategy)),
      timeline_(std::move(parts.timeline)),
      communicator_(std::move(parts.communicator)),
      control_(std::move(parts.control)),
      watch_(std::move(parts.watch)),
      made_(std::move(parts.made)),
      left_(static_cast<std::size_t>(job.size())) {
  std::iota(left_.begin(), left_.end(), 0);
  if (!goes_on(strategy_.capabilities()) || !job.options().goes_on_after_loss) return;
  recovery_.emplace(job, std::vector{communicator_.get(), control_.get()}, [this] {
    made_.local ? made_.local->regroup() : made_.replica->recover_step();
    find_furthest();
  });
  if (parts.regroup) *parts.regroup = [this] { return regroup(); };
}

DistributedReplica::~DistributedReplica() {
  if (timeline_ && control_->rank() == 0) timeline_->write_own();
  if (std::uncaught_exceptions() > 0) return;
  if (const std::string found = watch_->complaint(); !found.empty()) {
    log().error("{}", found);
    return;
  }
  if (communicator_->rank() == 0 && communicator_->size() > 1 && has_moved() && !mean_was_used_)
    log().warn(
        "training ended with a model of its own, or a part of one, on each worker: what this one "
        "tested or saved since its last step was that, not the merged one. Call "
        "replica->synchronize() after the last step.");
}

// Where workers step on their own, this one's step is done when an exchange fails. Those that are
// left may be in different steps then: those behind take the others' steps too, alone, and all
// merge there. Where they average gradients, all are in one step when they are together again, and
// what failed is done once more. Servers go on by themselves, and a step that fails has lost one of
// them.
StepResult DistributedReplica::step() {
  watch_->check();
  if (recovery_) recovery_->require_place();
  mean_was_used_ = false;
  StepResult result = StepResult::applied;
  const std::uint64_t skipped = made_.replica->stats().skipped;
  if (is_behind()) {
    result = made_.local->step_alone();
    merge();
  } else if (made_.local) {
    try {
      result = made_.replica->step();
    } catch (const JobFailed&) {
      if (!regroup()) throw;
      if (made_.replica->stats().skipped > skipped) result = StepResult::skipped;
      merge();
    }
  } else {
    result = step_together();
  }
  watch_->settle();
  if (timeline_) timeline_->end_step();
  const auto too_many = sync::too_many_skipped(made_.replica->stats());
  check(!too_many,
        "the gradients of {} were infinite or NaN, and the steps were skipped: training has "
        "diverged. A lower learning rate, a warm-up or clipping may help.",
        too_many.value_or(""));
  return result;
}

StepResult DistributedReplica::step_together() {
  for (;;) try {
      return made_.replica->step();
    } catch (const JobFailed&) {
      if (!strategy_.capabilities().exchanges_again || !regroup()) throw;
    }
}

void DistributedReplica::synchronize() {
  watch_->check();
  together([this] {
    made_.replica->synchronize();
    tell_timeline();
  });
  watch_->settle();
}

void DistributedReplica::tell_timeline() {
  if (!timeline_) return;
  timeline_->collect(*control_);
  if (control_->rank() == 0) timeline_->write();
}

// When all have come so far.
void DistributedReplica::merge() {
  while (!is_behind()) try {
      return made_.replica->synchronize();
    } catch (const JobFailed&) {
      if (!regroup()) throw;
    }
}

bool DistributedReplica::together(const std::function<void()>& call) {
  if (in_call_) return call(), true;  // a part of one, which is repeated as a whole
  while (furthest_call_ <= calls_) try {
      const Within within(in_call_);
      call();
      ++calls_;
      return true;
    } catch (const JobFailed&) {
      if (!regroup()) throw;
      merge();
    }
  ++calls_;
  return false;
}

void DistributedReplica::all_together(const std::function<void()>& call) {
  if (!together(call))
    throw JobFailed(
        "a worker was lost, and the others have gone on with what this one has missed: start the "
        "job again, and it goes on from its last checkpoint");
}

void DistributedReplica::set_sync(bool sync) {
  watch_->set_sync(sync);
  made_.replica->set_sync(sync);
}

// What the program throws is its own, and ends it.
void DistributedReplica::with_mean_model(const std::function<void()>& use) {
  watch_->check();
  std::exception_ptr thrown;
  const auto use_once = [&] {
    try {
      use();
    } catch (const JobFailed&) {
      throw;  // a collective in it: the whole call is repeated
    } catch (...) {
      thrown = std::current_exception();
    }
  };
  all_together([&] { made_.replica->with_mean_model(use_once); });
  if (thrown) std::rethrow_exception(thrown);
  mean_was_used_ = true;
}

void DistributedReplica::check_equal() {
  watch_->check();
  made_.replica->check_equal();
}

ReplicaState DistributedReplica::state() {
  watch_->check();
  return made_.replica->state();
}

bool DistributedReplica::regroup() {
  const auto change = recovery_ ? recovery_->regroup() : std::nullopt;
  if (!change) return false;
  left_ = recovery_->left();
  watch_->settle();  // another's model may have been taken over
  if (communicator_->rank() == 0)
    log().warn("{} {} lost: {} workers go on", net::name_ranks(change->lost),
               change->lost.size() == 1 ? "was" : "were", left_.size());
  return true;
}

void DistributedReplica::find_furthest() {
  const auto most = [this](std::int64_t count) {
    control_->all_reduce(buffer_of(std::span(&count, 1)), ReduceOp::max).or_throw();
    return count;
  };
  furthest_step_ = most(static_cast<std::int64_t>(stats().steps));
  furthest_call_ = most(calls_);
}

// Where workers go at their own pace, nobody is.
bool DistributedReplica::is_behind() const {
  return furthest_step_ > 0 && strategy_.capabilities().lockstep &&
         static_cast<std::int64_t>(stats().steps) < furthest_step_;
}

namespace {

// Rank 0's environment decides. Collective. None where this thread records one already, as that of
// another model's replica.
std::shared_ptr<RecordedTimeline> timeline_of(const Job& job, Communicator& control) {
  const char* const here = std::getenv("ASUP_TIMELINE");
  const std::string file = broadcast_text(control, here ? here : "");
  if (file.empty() || current_timeline()) return nullptr;
  auto timeline =
      std::make_shared<RecordedTimeline>(RecordedTimeline::Options{.file = file}, job.rank());
  timeline->begin(control, job.rank());
  return timeline;
}

std::unique_ptr<DistributedReplica> make_distributed(Job& job, torch::nn::Module& model,
                                                     torch::optim::Optimizer& optimizer,
                                                     const Strategy& strategy) {
  const bool retakes_steps =
      job.options().goes_on_after_loss && strategy.capabilities().exchanges_again;
  if (retakes_steps) require_known_state(optimizer);
  DistributedReplica::Parts parts{.strategy = strategy,
                                  .control = make_communicator(job, strategy)};
  parts.timeline = timeline_of(job, *parts.control);
  const bool needs_rates = !strategy.capabilities().needs_servers;
  parts.communicator = make_communicator(
      job, strategy, needs_rates ? find_rates(job, *parts.control, strategy) : std::nullopt);
  parts.watch = std::make_unique<StepWatch>(sync::TrainedModel(model, optimizer).trainable());
  std::function<bool()> regroup;
  if (retakes_steps) {
    parts.regroup = std::make_shared<std::function<bool()>>();
    regroup = [by = parts.regroup] { return *by && (*by)(); };
  }
  parts.made = strategy.make(
      {.job = job,
       .communicator = *parts.communicator,
       .model = model,
       .optimizer = optimizer,
       .timeout = strategy.timeout > Seconds(0) ? strategy.timeout : job.options().call_timeout,
       .regroup = std::move(regroup)});
  return std::make_unique<DistributedReplica>(job, std::move(parts));
}

}  // namespace

std::unique_ptr<DistributedReplica> distribute(Job& job, torch::nn::Module& model,
                                               torch::optim::Optimizer& optimizer) {
  refuse_unknown_variables(own_variables());
  return distribute(job, model, optimizer, Strategy::from(net::process_environment()));
}

std::unique_ptr<DistributedReplica> distribute(Job& job, torch::nn::Module& model,
                                               torch::optim::Optimizer& optimizer,
                                               const Strategy& strategy) {
  check_for_program(job, strategy, /*servers_keep_tables=*/false);
  return make_distributed(job, model, optimizer, strategy);
}

std::unique_ptr<DistributedReplica> distribute_beside_tables(Job& job, torch::nn::Module& model,
                                                             torch::optim::Optimizer& optimizer,
                                                             const Strategy& strategy) {
  check_for_program(job, strategy, /*servers_keep_tables=*/true);
  return make_distributed(job, model, optimizer, strategy);
}

void check_roles(const Job& job, const Strategy& strategy, bool uses_servers) {
  require(
      !strategy.capabilities().needs_servers || job.servers() > 0,
      "sync = {} keeps the parameters on servers, and this job has none: start it with asup run "
      "--servers 1",
      strategy.name());
  require(uses_servers || job.servers() == 0,
          "this job has {} servers, and sync = {} has no use for them: say sync = server, or start "
          "it without servers",
          job.servers(), strategy.name());
  strategy.check_workers(job.size());
}

namespace {

CommunicatorOptions communicator_options(const Strategy& strategy,
                                         std::optional<collective::Rates> rates) {
  CommunicatorOptions options;
  options.timeout = strategy.timeout;
  if (strategy.algorithm != "auto") options.algorithm = strategy.algorithm;
  options.rates = std::move(rates);
  return options;
}

}  // namespace

std::unique_ptr<Communicator> make_communicator(Job& job, const Strategy& strategy,
                                                std::optional<collective::Rates> rates) {
  CommunicatorOptions options = communicator_options(strategy, std::move(rates));
  const Capabilities capabilities = strategy.capabilities();
  if (!capabilities.lockstep && !capabilities.needs_servers)
    return std::make_unique<SubgroupCommunicator>(job, std::move(options));
  return make_communicator(job, std::move(options));
}

std::unique_ptr<Communicator> make_communicator(Job& job, const std::vector<int>& workers,
                                                std::string_view name, const Strategy& strategy,
                                                std::optional<collective::Rates> rates) {
  return make_communicator(job, workers, name, communicator_options(strategy, std::move(rates)));
}

std::optional<collective::Rates> find_rates(Job& job, Communicator& control,
                                            const Strategy& strategy) {
  using namespace collective::tuning;
  if (strategy.algorithm != "auto") return std::nullopt;
  const StartRates found = rates_at_start(control, surroundings_of(job), RatesCache::of_user());
  log().info("algorithms are chosen by rates {}", in_words(found.origin));
  return found.rates;
}

}  // namespace asup
