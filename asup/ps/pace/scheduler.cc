#include "asup/ps/pace/scheduler.h"

#include <algorithm>

#include "asup/base/error.h"

namespace asup::ps::pace {
namespace {

constexpr double kShortest = 1e-9;  // seconds of a lease
// Of the others' time, where a worker's own is not known.
constexpr double kExpectedAtFirst = 1.1, kOverdueAtFirst = 2;

double batch_of(const SchedulerOptions& options) {
  return options.work ? static_cast<double>(options.work->batch)
                      : options.pace.shares(options.workers);
}

Dealing dealing_of(const SchedulerOptions& options) {
  return options.pace.in_step() ? Dealing::fixed : Dealing::in_order;
}

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options)
    : options_((require_sense(options.pace, options.workers), options)),
      pacer_(bounds_of(options.pace, options.workers), batch_of(options), options.pace.stale_lr,
             options.pace.non_finite, options.version),
      accounts_(static_cast<std::size_t>(options.workers)),
      version_(options.version) {
  if (options.work)
    allocator_.emplace(*options.work, dealing_of(options), options.pace.shares(options.workers));
  if (options.pace.kind == Kind::adaptive)
    controller_.emplace(options.pace.freeze, options.momentum);
  for (int worker = 0; worker < options.workers; ++worker) {
    missing_.insert(worker);
    account(worker).figures.worker = worker;
  }
}

Decisions Scheduler::arrived(int worker, double now) {
  check(worker >= 0 && worker < options_.workers, "worker {} arrived, but there are only {}",
        worker, options_.workers);
  check(here_.insert(worker).second, "worker {} arrived, but was here already", worker);
  now_ = now;
  missing_.erase(worker);
  account(worker).figures.is_here = true;
  account(worker).timing = {};  // it may be on another machine by now
  if (allocator_) allocator_->joins(worker);
  resting_.insert(worker);
  return finish();
}

Decisions Scheduler::pushed(const Push& push, double now) {
  if (const auto refused = refusal(push)) throw Error(*refused);
  now_ = now;
  Account& account = this->account(push.worker);
  const Push counted = as_counted(push);
  const auto samples = static_cast<double>(std::max<std::uint64_t>(push.samples, 1));
  account.pushes[push.number] = {counted.samples, push.loss_sum / samples};
  ++account.figures.pushes;
  account.figures.seconds_working += push.seconds_working;
  account.figures.seconds_waiting += push.seconds_waiting;
  if (!controller_ || !controller_->is_frozen())
    account.timing.add(static_cast<double>(counted.samples) / even_lease(),
                       std::max(now - account.released, kShortest),
                       std::max(now - account.released - push.seconds_working, 0.0));
  if (controller_ && !account.timing.is_settled()) expect_again(push.worker);
  ++pushes_since_look_;
  post(pacer_.pushed(counted, now));
  // What a slow worker gets next must not be as long as the first.
  if (controller_ && !controller_->is_frozen() && !account.timing.is_settled()) adapt();
  return finish();
}

Decisions Scheduler::passed_sync_point(int worker, const std::set<int>& met, double now) {
  check(at_sync_point_.contains(worker) && !back_.contains(worker),
        "worker {} is through a sync point that it was not sent to", worker);
  now_ = now;
  back_[worker] = met;
  end_sync_point();
  return finish();
}

Decisions Scheduler::left(int worker, double now) {
  now_ = now;
  missing_.erase(worker);
  if (here_.erase(worker) == 0) return finish();
  if (std::exchange(leaves_, std::nullopt)) controller_->stay();  // that takes all workers
  resting_.erase(worker);
  Account& account = this->account(worker);
  account.figures.is_here = false;
  account.pushes.clear();
  back_.erase(worker);
  if (at_sync_point_.erase(worker) == 1) end_sync_point();
  const int returned = allocator_ ? allocator_->leaves(worker) : 0;
  post(pacer_.left(worker, now, options_.pace.in_step() ? returned : 0));
  return finish();
}

Decisions Scheduler::sync_point_soon(double now) {
  now_ = now;
  if (allocator_) allocator_->sync_point_soon();
  return finish();
}

Decisions Scheduler::tick(double now) {
  now_ = now;
  post(pacer_.tick(now));
  if (is_look_due()) adapt();
  return finish();
}

void Scheduler::updated(double seconds) {
  constexpr double kWeight = 0.2;
  const bool is_first = update_seconds_ == 0;
  update_seconds_ += (is_first ? 1 : kWeight) * (seconds - update_seconds_);
}

std::optional<double> Scheduler::wake() const {
  return is_look_due() ? std::optional(now_) : pacer_.wake();
}

std::optional<std::string> Scheduler::refusal(const Push& push) const {
  if (auto refused = pacer_.refusal(as_counted(push))) return refused;
  const auto lease = allocator_ ? allocator_->last_of(push.worker) : std::nullopt;
  if (lease && push.samples != lease->samples())
    return fmt::format("worker {}'s push {} is of {} samples, but its lease has {}", push.worker,
                       push.number, push.samples, lease->samples());
  return std::nullopt;
}

// Without leases, a push is one of the n that make a step.
Push Scheduler::as_counted(const Push& push) const {
  Push counted = push;
  if (!allocator_) {
    counted.samples = 1;  // of the clock, which counts pushes
  } else if (const auto lease = allocator_->last_of(push.worker)) {
    counted.of_step = allocator_->samples_of(lease->step);
  }
  return counted;
}

std::uint64_t Scheduler::step() const {
  return allocator_ ? allocator_->step()
                    : pacer_.samples_applied() / static_cast<std::uint64_t>(options_.workers);
}

PaceReport Scheduler::report() const {
  PaceReport report;
  double weighed = 0, weighed_steps = 0;
  for (const Account& account : accounts_) {
    WorkerFigures figures = account.figures;
    if (figures.applied > 0) {
      figures.mean_staleness = account.staleness / static_cast<double>(figures.applied);
      figures.mean_staleness_steps = account.staleness_steps / static_cast<double>(figures.applied);
    }
    report.samples += figures.samples;
    report.non_finite_pushes += figures.dropped_non_finite;
    report.worst_staleness = std::max(report.worst_staleness, figures.worst_staleness);
    report.worst_staleness_steps =
        std::max(report.worst_staleness_steps, figures.worst_staleness_steps);
    weighed += account.weighed_staleness;
    weighed_steps += account.weighed_staleness_steps;
    report.workers.push_back(figures);
  }
  report.updates = version_ - options_.version;
  if (report.samples > 0) {
    report.mean_staleness = weighed / static_cast<double>(report.samples);
    report.mean_staleness_steps = weighed_steps / static_cast<double>(report.samples);
  }
  if (allocator_) report.samples_dropped = allocator_->samples_dropped();
  if (controller_) report.choices = controller_->choices();
  return report;
}

// Carries out what is posted and all that follows from it.
Decisions Scheduler::finish() {
  const auto carry_out_all = [&] {
    while (!commands_.empty()) {
      const Command command = std::move(commands_.front());
      commands_.pop_front();
      std::visit([&](const auto& one) { carry_out(one); }, command);
    }
  };
  do carry_out_all();
  while (wake_one());
  if (allocator_) {
    if (allocator_->at_sync_point()) go_to_sync_point();
    if (allocator_->at_end()) go_to_end();
  }
  return std::exchange(decisions_, {});
}

void Scheduler::post(Commands commands) {
  // In a queue, so that what follows from a command comes after those that were given with it.
  for (Command& command : commands) commands_.push_back(std::move(command));
}

void Scheduler::carry_out(const Update& update) {
  for (const Update::Part& part : update.parts) {
    Account& account = this->account(part.worker);
    const Account::InFlight push = account.pushes.at(part.number);
    account.pushes.erase(part.number);
    const auto samples = static_cast<double>(push.samples);
    const auto versions = static_cast<double>(part.staleness.versions);
    ++account.figures.applied;
    account.figures.samples += push.samples;
    account.staleness += versions;
    account.staleness_steps += part.staleness.steps;
    account.weighed_staleness += versions * samples;
    account.weighed_staleness_steps += part.staleness.steps * samples;
    account.figures.worst_staleness =
        std::max(account.figures.worst_staleness, part.staleness.versions);
    account.figures.worst_staleness_steps =
        std::max(account.figures.worst_staleness_steps, part.staleness.steps);
    if (allocator_) allocator_->done(part.worker, part.number, false);
    if (controller_)
      controller_->applied(samples / batch_of(options_), push.loss, part.staleness.steps);
  }
  version_ = update.version;
  decisions_.push_back(update);
}

void Scheduler::carry_out(const Drop& drop) {
  decisions_.push_back(drop);
  if (drop.why == Drop::Why::lost) return;  // its lease is back with the allocator
  Account& account = this->account(drop.worker);
  account.pushes.erase(drop.number);
  ++(drop.why == Drop::Why::late ? account.figures.dropped_late
                                 : account.figures.dropped_non_finite);
  if (!allocator_) return;
  // A step of backup workers takes a whole batch, and so do all steps together.
  const bool is_redone = options_.pace.backup > 0 && drop.why == Drop::Why::late;
  is_redone ? allocator_->redo(drop.worker, drop.number)
            : allocator_->done(drop.worker, drop.number, true);
}

void Scheduler::carry_out(const Go& go) {
  Clearance release{.worker = go.worker, .version = version_};
  if (allocator_) {
    release.lease = allocator_->lease(go.worker, speeds());
    if (!release.lease) {
      resting_.insert(go.worker);
      return post(pacer_.rests(go.worker, now_));
    }
  }
  account(go.worker).released = now_;
  expect(go.worker);
  decisions_.push_back(release);
}

// Lets one worker go on that had nothing to do, if there is something now.
bool Scheduler::wake_one() {
  if (!missing_.empty()) return false;
  for (const int worker : resting_) {
    if (allocator_ && !allocator_->has_lease_for(worker, speeds())) continue;
    resting_.erase(worker);
    post(pacer_.arrived(worker, now_));
    return true;
  }
  return false;
}

void Scheduler::go_to_sync_point() {
  if (!at_sync_point_.empty() || !missing_.empty()) return;
  at_sync_point_ = here_;
  for (const int worker : at_sync_point_) send_to_sync_point(worker);
}

void Scheduler::send_to_sync_point(int worker) {
  decisions_.push_back(Clearance{.worker = worker,
                                 .to = Clearance::To::sync_point,
                                 .sync_point = allocator_->sync_point(),
                                 .leaves = leaves_,
                                 .version = version_});
}

// Whoever ended it with one that is gone goes again at once: others may wait for it there, since
// they have not ended the sync point. Where all are back and not all with all, two of them have
// lost each other: going again shows who goes on.
void Scheduler::end_sync_point() {
  const bool are_all_back = back_.size() == at_sync_point_.size();
  const bool have_met = std::all_of(back_.begin(), back_.end(),
                                    [&](const auto& one) { return one.second == at_sync_point_; });
  if (are_all_back && have_met) {
    at_sync_point_.clear();
    back_.clear();
    allocator_->pass();
    return;
  }
  std::erase_if(back_, [&](const auto& one) {
    const auto& [worker, met] = one;
    const bool met_the_gone =
        !std::includes(at_sync_point_.begin(), at_sync_point_.end(), met.begin(), met.end());
    if (met_the_gone || are_all_back) send_to_sync_point(worker);
    return met_the_gone || are_all_back;
  });
}

void Scheduler::go_to_end() {
  if (!missing_.empty()) return;
  for (const int worker : resting_)
    decisions_.push_back(
        Clearance{.worker = worker, .to = Clearance::To::end, .version = version_});
  resting_.clear();
  has_ended_ = true;
}

// Tells the pacer when to expect a worker that is at work.
void Scheduler::expect(int worker) {
  if (!controller_) return;
  const Account& account = this->account(worker);
  const auto lease = allocator_ ? allocator_->last_of(worker) : std::nullopt;
  const double length = lease ? static_cast<double>(lease->samples()) / even_lease() : 1;
  const auto expect_in = [&](double seconds, double overdue) {
    pacer_.expect(worker, account.released + seconds, account.released + overdue);
  };
  const Timing& own = account.timing;
  const Timing* other = example_for(worker);
  if (own.is_known()) {
    const double after_first = own.has_only_first() && other ? own.factor_after_first(*other) : 1;
    const double factor = after_first * own.factor(length);
    expect_in(own.typical() * factor, own.overdue() * factor);
  } else if (other) {
    const double seconds = other->typical() * other->factor(length);
    expect_in(kExpectedAtFirst * seconds, kOverdueAtFirst * seconds);
  }
}

// One that has just pushed has told something of the others, of whom little is known yet.
void Scheduler::expect_again(int pushed) {
  for (const int worker : here_)
    if (worker != pushed && pacer_.works(worker) && !account(worker).timing.is_settled())
      expect(worker);
}

// Another worker whose times are known, if there is one.
const Timing* Scheduler::example_for(int worker) const {
  const Timing* example = nullptr;
  for (const int other : here_)
    if (other != worker) example = better_known(example, &account(other).timing);
  return example;
}

// At the first push, and then once a step.
bool Scheduler::is_look_due() const {
  if (!controller_ || controller_->is_frozen() || pushes_since_look_ == 0) return false;
  return controller_->choices().empty() || pushes_since_look_ >= here_.size();
}

void Scheduler::adapt() {
  pushes_since_look_ = 0;
  const auto choice = controller_->decide(situation());
  if (!choice) return;
  if (choice->leaves) {
    leaves_ = choice->leaves;
    allocator_->sync_point_soon();
    return;
  }
  if (allocator_) {
    std::map<int, double> lengths;
    const bool is_even = std::all_of(choice->lengths.begin(), choice->lengths.end(),
                                     [](double length) { return length == 1; });
    for (std::size_t i = 0; i < choice->workers.size() && !is_even; ++i)
      lengths[choice->workers[i]] = choice->lengths[i];
    allocator_->balance(std::move(lengths));
  }
  post(pacer_.set(choice->bounds, now_));
}

Situation Scheduler::situation() const {
  Situation situation;
  situation.now = now_;
  situation.step = step();
  situation.version = version_;
  situation.can_balance = allocator_.has_value();
  situation.update_seconds = update_seconds_;
  situation.can_leave = allocator_ && options_.work->can_leave && options_.pace.leaves &&
                        here_.size() == static_cast<std::size_t>(options_.workers);
  if (allocator_ && allocator_->samples_total() > 0) {
    const auto all = static_cast<double>(options_.work->steps * options_.work->batch);
    const auto left = static_cast<double>(allocator_->samples_total() - allocator_->samples_done());
    situation.left = left / all;
    situation.steps_left = left / static_cast<double>(options_.work->batch);
  }
  for (const int worker : here_) {
    const Account& account = this->account(worker);
    situation.workers[worker] = {&account.timing,
                                 pacer_.works(worker) ? now_ - account.released : 0};
  }
  double late = 0;
  for (const Account& account : accounts_) {
    situation.samples += account.figures.samples;
    late += account.weighed_staleness_steps;
  }
  if (situation.samples > 0) situation.staleness = late / static_cast<double>(situation.samples);
  return situation;
}

// None with backup workers: every one of their steps is of so many whole shares.
Speeds Scheduler::speeds() const {
  Speeds speeds;
  if (options_.pace.backup > 0) return speeds;
  for (const int worker : here_) {
    const Account& account = this->account(worker);
    if (!account.timing.is_known()) continue;
    const double seconds = account.timing.typical() / even_lease();
    double busy = 0;
    if (const auto lease = allocator_->last_of(worker); lease && pacer_.works(worker)) {
      const double elapsed = now_ - account.released;
      const double all = seconds * static_cast<double>(lease->samples());
      busy = std::max(all - elapsed, elapsed / 4);  // overdue: it may take a while yet
    }
    speeds.workers[worker] = {seconds, busy};
  }
  return speeds;
}

Scheduler::Account& Scheduler::account(int worker) {
  return accounts_.at(static_cast<std::size_t>(worker));
}

const Scheduler::Account& Scheduler::account(int worker) const {
  return accounts_.at(static_cast<std::size_t>(worker));
}

double Scheduler::even_lease() const {
  return batch_of(options_) / options_.pace.shares(options_.workers);
}

}  // namespace asup::ps::pace
