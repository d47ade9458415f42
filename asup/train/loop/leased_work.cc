#include "asup/train/loop/leased_work.h"

#include <utility>

#include "asup/base/error.h"

namespace asup::train {

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
  return {.step = samples_.steps_at(server_.release())};
}

void LeasedWork::end_sync_point() {
  run_.control().barrier().or_throw();
  if (run_.is_first_rank()) run_.keep_server_report();
  server_.arrive(left_());
}

}  // namespace asup::train
