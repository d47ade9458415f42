#include "asup/ps/pace/pacer.h"

#include <algorithm>
#include <tuple>

#include "asup/base/error.h"

namespace asup::ps::pace {

Bounds bounds_of(const Options& options, int workers) {
  switch (options.kind) {
    case Kind::bsp:
      if (options.backup > 0) return {.gather = workers - options.backup, .keep = 0};
      return {.gather = kAll};
    case Kind::ssp:
      return {.gather = 1, .staleness = options.staleness};
    case Kind::asp:
      return {.gather = 1};
    case Kind::kasync:
      return {.gather = options.gather};
    case Kind::adaptive:
      return {.gather = kAll, .keep = 8};  // until the first choice
  }
  throw Error("a pace that is none");
}

bool is_worth_waiting(std::size_t here, double now, std::span<double> to_come, double patience) {
  if (to_come.empty()) return false;
  // Waiting for the first j of them until t_j costs m (t_j - now) for the m that are here, and
  // t_j - t_i for each that comes before. Mostly, the first one decides: no need to sort them all.
  double waiting = static_cast<double>(here), cost = 0, last = now, joined = 0;
  const double first = *std::min_element(to_come.begin(), to_come.end());
  if (waiting * (first - now) <= patience) return true;
  if (waiting * (first - now) > patience * static_cast<double>(to_come.size())) return false;
  std::sort(to_come.begin(), to_come.end());
  for (const double when : to_come) {
    cost += waiting * (when - last);
    if (cost <= patience * ++joined) return true;
    last = when;
    ++waiting;
  }
  return false;
}

Pacer::Pacer(const Bounds& bounds, double batch, bool stale_lr, NonFinite non_finite,
             std::uint64_t version)
    : batch_(batch),
      stale_lr_(stale_lr),
      non_finite_(non_finite),
      bounds_(bounds),
      version_(version) {
  check(batch > 0, "a step of {} samples", batch);
}

Commands Pacer::arrived(int worker, double now) {
  Worker& arriving = workers_[worker];
  check(arriving.state == State::away || arriving.state == State::resting,
        "worker {} arrived, but was here and at work already", worker);
  set_clock(arriving);
  arriving.state = State::held;
  return settle(now);
}

Commands Pacer::pushed(const Push& push, double now) {
  if (const auto refused = refusal(push)) throw Error(*refused);
  if (push.non_finite > 0 && non_finite_ == NonFinite::fatal)
    throw JobFailed(fmt::format(
        "{} of worker {}'s gradients in its push {} are not finite (loss {:.4g}); lower the "
        "learning rate, or let such pushes be skipped",
        push.non_finite, push.worker, push.number,
        push.loss_sum / static_cast<double>(push.samples)));

  Worker& worker = workers_.at(push.worker);
  worker.state = State::held;
  worker.described = push.described;
  ++worker.next_push;
  ++worker.clock;
  const double late = static_cast<double>(applied_ - worker.applied) / batch_;
  if (late > worker.keep) {
    Commands commands{Drop{push.worker, push.number, Drop::Why::late}};
    // Backup workers' go on at once, so that those who wait do so for the next push of this one.
    if (worker.keep == 0) let_go(commands);
    return settle(now, std::move(commands));
  }

  // A push that is skipped still counts as having come: its worker waits for the update as the
  // others do, and they do not wait for it.
  const bool skipped = push.non_finite > 0 && non_finite_ == NonFinite::skip;
  pending_.push_back({push, worker.applied, skipped});
  if (skipped) return settle(now, {Drop{push.worker, push.number, Drop::Why::non_finite}});
  return settle(now);
}

Commands Pacer::rests(int worker, double now) {
  known(worker, State::working, "rests").state = State::resting;
  return settle(now);
}

Commands Pacer::left(int worker, double now, int redo) {
  Commands commands;
  for (const Pending& pending : pending_)
    if (pending.push.worker == worker && !pending.skipped)
      commands.push_back(Drop{worker, pending.push.number, Drop::Why::lost});
  std::erase_if(pending_, [&](const Pending& p) { return p.push.worker == worker; });
  workers_.erase(worker);
  owed_ += redo;
  return settle(now, std::move(commands));
}

Commands Pacer::tick(double now) { return settle(now); }

Commands Pacer::set(const Bounds& bounds, double now) {
  bounds_ = bounds;
  return settle(now);
}

void Pacer::expect(int worker, double when, double overdue) {
  Worker& expected = known(worker, State::working, "is expected to push");
  expected.expected = when;
  expected.overdue = overdue;
}

std::optional<double> Pacer::wake() const {
  if (pending_.empty() || owed_ > 0) return std::nullopt;
  const double until = waits_until(now_).value_or(now_);
  return until < kForever ? std::optional(until) : std::nullopt;
}

std::optional<std::string> Pacer::refusal(const Push& push) const {
  const auto found = workers_.find(push.worker);
  if (found == workers_.end() || found->second.state != State::working)
    return fmt::format("worker {} pushed, but was not at work", push.worker);
  const Worker& worker = found->second;
  if (push.number != worker.next_push)
    return fmt::format("worker {} sent its push {}, but push {} is next", push.worker, push.number,
                       worker.next_push);
  if (push.version != worker.version)
    return fmt::format("worker {}'s push {} is of version {}, but it was given version {}",
                       push.worker, push.number, push.version, worker.version);
  if (push.samples == 0)
    return fmt::format("worker {}'s push {} is of no samples", push.worker, push.number);
  return std::nullopt;
}

bool Pacer::works(int worker) const {
  const auto found = workers_.find(worker);
  return found != workers_.end() && found->second.state == State::working;
}

Pacer::Worker& Pacer::known(int worker, State state, const char* event) {
  const auto found = workers_.find(worker);
  check(found != workers_.end() && found->second.state == state,
        "worker {} {}, which does not fit what it did before", worker, event);
  return found->second;
}

Commands Pacer::settle(double now, Commands commands) {
  now_ = now;
  if (is_due(now)) update(commands);
  let_go(commands);
  return commands;
}

bool Pacer::is_due(double now) const {
  if (pending_.empty() || owed_ > 0) return false;
  return pending_.size() >= static_cast<std::size_t>(bounds_.gather) ||
         count(State::working) <= static_cast<std::size_t>(bounds_.spare) || !waits_until(now);
}

// Nothing, where the pushes that are there should wait no longer. Else the time of the next look,
// if no push comes before.
std::optional<double> Pacer::waits_until(double now) const {
  if (bounds_.patience == kForever) return kForever;
  std::vector<double> to_come;
  to_come.reserve(workers_.size());
  for (const auto& [id, worker] : workers_) {
    if (worker.state != State::working) continue;
    if (!worker.expected) return kForever;
    const double when = now < *worker.expected ? *worker.expected : worker.overdue;
    if (now < when) to_come.push_back(when);
  }
  if (to_come.empty() || !is_worth_waiting(pending_.size(), now, to_come, bounds_.patience))
    return std::nullopt;
  return *std::min_element(to_come.begin(), to_come.end());
}

namespace {

// What a push counts beside others.
double weight_of(const Push& push) {
  return static_cast<double>(push.described.value_or(push.samples));
}

}  // namespace

// The last batches of all workers; of those who are not here, or have not pushed, as the mean.
double Pacer::described_step() const {
  double sum = 0, known = 0;
  for (const auto& [id, worker] : workers_) {
    if (!worker.described) continue;
    sum += static_cast<double>(*worker.described);
    ++known;
  }
  return sum * (batch_ / known);
}

// Samples of one step are added up before they are divided: a whole step's share is 1 to the bit.
double Pacer::share_of(const std::vector<Pending>& parts) const {
  if (parts.front().push.described) {
    double described = 0;
    for (const Pending& part : parts) described += weight_of(part.push);
    return described / described_step();
  }
  std::map<std::uint64_t, std::uint64_t> samples;  // by the size of their step
  for (const Pending& part : parts) samples[part.push.of_step] += part.push.samples;
  double share = 0;
  for (const auto& [of_step, count] : samples)
    share += static_cast<double>(count) / (of_step > 0 ? static_cast<double>(of_step) : batch_);
  return share;
}

void Pacer::update(Commands& commands) {
  std::vector<Pending> parts = std::move(pending_);
  pending_.clear();
  std::erase_if(parts, [](const Pending& pending) { return pending.skipped; });
  if (parts.empty()) return;
  std::sort(parts.begin(), parts.end(), [](const Pending& a, const Pending& b) {
    return std::tie(a.push.worker, a.push.number) < std::tie(b.push.worker, b.push.number);
  });

  double whole = 0;
  for (const Pending& part : parts) whole += weight_of(part.push);
  if (whole == 0)  // batches of no samples, of gradients that are zero: pushes like others
    for (Pending& part : parts) {
      part.push.described.reset();
      whole += weight_of(part.push);
    }

  Update update;
  update.version = version_ + 1;
  std::vector<double> gains;  // of the parts
  double moved = 0;           // sum of samples * gain
  bool is_one_gain = true;
  for (const Pending& part : parts) {
    const Staleness staleness{version_ - part.push.version,
                              static_cast<double>(applied_ - part.applied) / batch_};
    const double gain = stale_lr_ ? 1 / std::max(1.0, staleness.steps) : 1;
    update.parts.push_back({part.push.worker, part.push.number, 0, staleness});
    update.samples += part.push.samples;
    moved += weight_of(part.push) * gain;
    gains.push_back(gain);
    is_one_gain = is_one_gain && gain == gains.front();
  }
  // One gain is not averaged, so that a synchronous step has it to the last bit.
  const double gain = is_one_gain ? gains.front() : moved / whole;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const double share = weight_of(parts[i].push) / whole;
    update.parts[i].weight = is_one_gain ? share : share * gains[i] / gain;
  }
  update.share = share_of(parts);
  update.gain = gain * (parts.front().push.described ? update.share : whole / batch_);
  version_ = update.version;
  applied_ += update.samples;
  commands.push_back(std::move(update));
}

std::optional<std::uint64_t> Pacer::slowest_clock() const {
  std::optional<std::uint64_t> slowest;
  for (const auto& [id, worker] : workers_)
    if (worker.state == State::working || worker.state == State::held)
      slowest = std::min(slowest.value_or(worker.clock), worker.clock);
  return slowest;
}

void Pacer::set_clock(Worker& arriving) {
  if (const auto slowest = slowest_clock())
    arriving.clock = std::max(arriving.clock, *slowest);
  else
    for (auto& [id, worker] : workers_) worker.clock = 0;
}

void Pacer::let_go(Commands& commands) {
  const std::uint64_t slowest = slowest_clock().value_or(0);
  for (auto& [id, worker] : workers_) {
    if (worker.state != State::held || has_pending(id)) continue;
    if (static_cast<double>(worker.clock - slowest) <= bounds_.staleness) go(id, worker, commands);
  }
  for (auto& [id, worker] : workers_)
    if (owed_ > 0 && worker.state == State::held) go(id, worker, commands);
}

void Pacer::go(int id, Worker& worker, Commands& commands) {
  worker.state = State::working;
  worker.version = version_;
  worker.applied = applied_;
  worker.keep = bounds_.keep;
  worker.expected.reset();
  worker.overdue = kForever;
  if (owed_ > 0) --owed_;
  commands.push_back(Go{id});
}

bool Pacer::has_pending(int worker) const {
  return std::any_of(pending_.begin(), pending_.end(),
                     [&](const Pending& pending) { return pending.push.worker == worker; });
}

std::size_t Pacer::count(State state) const {
  return static_cast<std::size_t>(std::count_if(
      workers_.begin(), workers_.end(), [&](const auto& w) { return w.second.state == state; }));
}

}  // namespace asup::ps::pace
