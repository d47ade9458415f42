#include "asup/train/loop/leased_work.h"

#include <algorithm>
#include <utility>

#include "asup/base/error.h"
#include "asup/sync/averaging/local_sgd.h"
#include "asup/sync/gradients/all_reduce.h"
#include "asup/sync/server/parameter_server.h"

namespace asup::train {

namespace {

// How all go on without the servers, where these say so; with what the strategy up to now has for
// all ways.
std::optional<Strategy> strategy_after(const ps::Release& release, const Strategy& now) {
  const auto* adaptive = now.as<Asup>();
  if (release.leave == ps::Release::Leave::no || !adaptive) return std::nullopt;
  const ParameterServer& server = adaptive->server;
  const NonFinite non_finite = server.non_finite;
  const auto every = std::max<std::int64_t>(release.every, 1);
  Strategy next = release.leave == ps::Release::Leave::to_local
                      ? Strategy(LocalSgd{.every = every, .non_finite = non_finite})
                      : Strategy(AllReduce{.non_finite = non_finite,
                                           .compress = server.compress,
                                           .compress_feedback = server.compress_feedback});
  next.algorithm = now.algorithm;
  next.timeout = now.timeout;
  return next;
}

}  // namespace

LeasedWork::LeasedWork(RunState& run, std::function<std::vector<int>()> left)
    : run_(run),
      context_(run.context()),
      server_(*context_.server),
      left_(std::move(left)),
      samples_(run.config(), context_.length, *context_.train, *context_.batches) {
  server_.when_released([this](const ps::Release& release) { samples_.prepare(release); });
}

// Servers skip the push of a loss that is no number, and count it, unless they are to apply it.
WorkSource::Traits LeasedWork::traits() const {
  return {.skips_non_finite = run_.config().strategy.capabilities().skips_non_finite,
          .counts_by_steps = true};
}

StepWork LeasedWork::next() {
  const ps::Release& lease = server_.release();
  check(lease.next == ps::Release::Next::lease,
        "the servers end the work before its last sync point");
  const LeasedSamples::Part part = samples_.part_at(lease, lease.begin + done_);
  StepWork work;
  work.batch = samples_.take(part);
  work.step = part.step;
  work.weight = 1 / static_cast<double>(part.samples.size());
  work.lr = learning_rate(run_.config(), context_.length, part.step);
  work.samples_before = done_;
  work.loss_before = loss_;
  work.alone = lease.begin + done_ + part.samples.size() < lease.end;
  return work;
}

void LeasedWork::computed(const StepOutcome& outcome) {
  const ps::Release& lease = server_.release();
  done_ += static_cast<std::uint64_t>(outcome.samples);
  loss_ += outcome.loss;
  if (lease.begin + done_ < lease.end) return;
  done_ = 0;
  loss_ = 0;
}

bool LeasedWork::sync_point_due(const StopRequest& stop) {
  if (stop.asked && !std::exchange(asked_, true)) server_.ask_for_sync_point();
  return server_.release().next == ps::Release::Next::sync_point;
}

WorkSource::SyncPoint LeasedWork::reach(bool) {
  const std::int64_t step = samples_.steps_at(server_.release());
  run_.set_step(step);
  if (const auto strategy = strategy_after(server_.release(), run_.config().strategy)) {
    const bool are_all_here = run_.control().size() == run_.config().workers;
    // A sync point is held again where somebody is lost in it.
    are_all_here&& step < run_.last_step() ? run_.go_on_by(*strategy) : run_.stay();
  }
  return {.step = step};
}

void LeasedWork::end_sync_point() {
  run_.control().barrier().or_throw();
  if (run_.is_first_rank()) run_.keep_server_report();
  server_.arrive(left_());
}

}  // namespace asup::train
