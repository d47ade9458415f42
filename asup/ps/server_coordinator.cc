#include "asup/ps/server_coordinator.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "asup/base/log.h"

namespace asup::ps {
namespace {

using nlohmann::json;

Release message_of(const pace::Clearance& release) {
  Release message;
  message.version = release.version;
  switch (release.to) {
    case pace::Clearance::To::work:
      message.next = Release::Next::lease;
      break;
    case pace::Clearance::To::sync_point:
      message.next = Release::Next::sync_point;
      message.step = release.sync_point;
      if (release.leaves) {
        const bool is_local = release.leaves->by == pace::Elsewhere::By::local;
        message.leave = is_local ? Release::Leave::to_local : Release::Leave::to_all_reduce;
        message.every = static_cast<std::uint32_t>(release.leaves->every);
      }
      break;
    case pace::Clearance::To::end:
      message.next = Release::Next::end;
      message.step = release.sync_point;
      break;
  }
  if (release.lease) {
    message.step = release.lease->step;
    message.begin = release.lease->begin;
    message.end = release.lease->end;
  }
  return message;
}

json to_json(const pace::WorkerFigures& figures) {
  return {{"worker", figures.worker},
          {"here", figures.is_here},
          {"pushes", figures.pushes},
          {"applied", figures.applied},
          {"dropped_late", figures.dropped_late},
          {"dropped_non_finite", figures.dropped_non_finite},
          {"samples", figures.samples},
          {"mean_staleness", figures.mean_staleness},
          {"worst_staleness", figures.worst_staleness},
          {"mean_staleness_steps", figures.mean_staleness_steps},
          {"worst_staleness_steps", figures.worst_staleness_steps},
          {"seconds_working", figures.seconds_working},
          {"seconds_waiting", figures.seconds_waiting}};
}

json to_json(const pace::Choice& choice) {
  return {{"seconds", choice.time},
          {"step", choice.step},
          {"version", choice.version},
          {"name", choice.name},
          {"bounds", pace::describe(choice.bounds)},
          {"workers", choice.workers},
          {"lengths", choice.lengths},
          {"lease_seconds", choice.seconds},
          {"sensitivity", choice.sensitivity},
          {"weight", choice.weight},
          {"speed", choice.speed},
          {"staleness", choice.staleness},
          {"score", choice.score},
          {"score_before", choice.score_before},
          {"exchange_seconds", choice.exchange},
          {"exchange_share", choice.exchange_share},
          {"leaves", choice.leaves.has_value()},
          {"samples", choice.samples},
          {"mean_staleness_steps", choice.measured_staleness},
          {"reason", choice.reason}};
}

// The most that a group of parameters has.
double momentum_of(const std::vector<kernels::Rule>& rules) {
  double most = 0;
  for (const kernels::Rule& rule : rules) most = std::max(most, kernels::momentum_of(rule));
  return most;
}

bool is_merge(const kernels::Rule& rule) { return rule.kind == kernels::Rule::Kind::merge; }

// Whether pushes are gradients as they were computed, or nearly, of whole models: the noise of a
// coarse code would count as theirs.
bool pushes_tell_noise(const ServerSetup& setup) {
  using enum kernels::Code;
  return setup.parts.empty() && std::ranges::none_of(setup.rules, is_merge) &&
         (setup.code == none || setup.code == bf16 || setup.code == f16);
}

}  // namespace

ServerCoordinator::ServerCoordinator(int workers, int servers, const ServerSetup& setup,
                                     std::uint64_t version, Delegate& delegate)
    : servers_(servers),
      teams_(setup.teams, workers),
      delegate_(delegate),
      head_({.workers = teams_.count(),
             .pace = setup.pace,
             .work = setup.work,
             .version = version,
             .momentum = momentum_of(setup.rules)}),
      leases_samples_(setup.work.has_value()),
      pushes_tell_noise_(pushes_tell_noise(setup)),
      noise_(setup.layout.elements * sizeof(float), servers) {}

void ServerCoordinator::arrived(int worker, const std::set<int>& met) {
  const int team = teams_.of(worker);
  Coming& coming = coming_[team];
  check(coming.members.insert(worker).second, "worker {} arrived twice", worker);
  for (const int other : met) coming.met.insert(teams_.of(other));
  if (coming.members.size() < teams_.size()) return;
  const std::set<int> all_met = std::move(coming.met);
  coming_.erase(team);
  const bool from_sync_point = std::exchange(at_sync_point_[team], false);
  carry_out(from_sync_point ? head_.passed_sync_point(team, all_met, now())
                            : head_.arrived(team, now()));
}

// What members say of theirs is of parts of one push, whose samples and loss one of them tells.
std::string ServerCoordinator::add_to_push(Arriving& arriving, const Commit& commit) const {
  const Figures& figures = commit.figures;
  pace::Push& push = arriving.push;
  if (arriving.committed > 0 && (push.number != commit.push - 1 || push.version != figures.version))
    return fmt::format("its push {} at version {} goes with others' push {} at version {}",
                       commit.push, figures.version, push.number + 1, push.version);
  push.number = commit.push - 1;
  push.version = figures.version;
  push.samples += figures.samples;
  if (figures.described != 0) push.described = push.described.value_or(0) + figures.samples;
  push.loss_sum += figures.loss;
  push.seconds_working = std::max(push.seconds_working, figures.compute_seconds);
  push.seconds_waiting = std::max(push.seconds_waiting, figures.wait_seconds);
  push.non_finite += figures.not_finite;
  ++arriving.committed;
  return {};
}

std::string ServerCoordinator::committed(int worker, const Commit& commit) {
  const int team = teams_.of(worker);
  if (gone_.contains(team)) return "another worker of its team has left";
  const auto found = arriving_.find(team);
  Arriving arriving = found == arriving_.end() ? Arriving() : found->second;
  arriving.push.worker = team;
  if (auto complaint = add_to_push(arriving, commit); !complaint.empty()) return complaint;
  const pace::Push& push = arriving.push;
  if (arriving.committed == teams_.size()) {
    if (const auto refusal = head_.refusal(push)) return *refusal;
    if (describes_.value_or(push.described.has_value()) != push.described.has_value())
      return fmt::format(
          "it {}, unlike the first push of all, so that batches cannot be weighed by their "
          "samples: call describe_batch() before every step() of all workers, or of none",
          push.described ? "says of how many samples its push is"
                         : "does not say of how many samples its push is");
    describes_ = push.described.has_value();
  }
  arriving_[team] = arriving;
  return {};
}

void ServerCoordinator::staged(int worker, std::uint64_t push) {
  const int team = teams_.of(worker);
  Arriving& arriving = arriving_[team];
  arriving.push.worker = team;
  arriving.push.number = push - 1;
  ++arriving.staged;
  if (arriving.staged < static_cast<std::size_t>(servers_) * teams_.size() ||
      arriving.committed < teams_.size())
    return;
  const pace::Push complete = arriving.push;
  arriving_.erase(team);
  const std::uint64_t samples = leases_samples_ ? complete.samples : complete.described.value_or(0);
  if (pushes_tell_noise_ && complete.non_finite == 0) noise_.pushed(complete, samples);
  carry_out(head_.pushed(complete, now()));
}

// A team that has lost a member can do nothing more.
bool ServerCoordinator::left(int worker) {
  const int team = teams_.of(worker);
  if (!gone_.insert(team).second) return false;
  coming_.erase(team);
  const auto found = arriving_.find(team);
  const bool pushes = found != arriving_.end();
  if (pushes) {
    Command command;  // some servers have its last push, but not all
    command.version = head_.version();
    for (const int member : teams_.members(team))
      command.dropped.push_back({member, 0, found->second.push.number + 1, 0});
    arriving_.erase(found);
    delegate_.give_command(command);
  }
  noise_.left(team);
  carry_out(head_.left(team, now()));
  return pushes;
}

void ServerCoordinator::ask_sync_point() { carry_out(head_.sync_point_soon(now())); }

Deadline ServerCoordinator::wake() const {
  const auto at = head_.wake();
  return at ? began_ + std::chrono::duration_cast<Clock::duration>(Seconds(*at)) : Deadline::max();
}

void ServerCoordinator::tick() { carry_out(head_.tick(now())); }

// Decisions in a row become one command where what is handed out is the same either way.
void ServerCoordinator::carry_out(const pace::Decisions& decisions) {
  Command command;
  command.version = head_.version();
  bool some = false;
  const auto flush = [&] {
    if (some) delegate_.give_command(command);
    command = {};
    some = false;
  };
  for (const pace::Decision& decision : decisions) {
    if (const auto* update = std::get_if<pace::Update>(&decision)) {
      if (!command.parts.empty() || !command.released.empty()) flush();
      command.gain = update->gain;
      command.share = update->share;
      command.version = update->version;
      command.compares = noise_.updates(*update);
      for (const auto& part : update->parts)
        for (const int member : teams_.members(part.worker))
          command.parts.push_back(
              {member, 0, part.number + 1, part.weight / static_cast<double>(teams_.size())});
    } else if (const auto* drop = std::get_if<pace::Drop>(&decision)) {
      for (const int member : teams_.members(drop->worker))
        command.dropped.push_back({member, 0, drop->number + 1, 0});
      noise_.dropped(drop->worker, drop->number);
    } else {
      const auto& release = std::get<pace::Clearance>(decision);
      command.version = release.version;
      at_sync_point_[release.worker] = release.to == pace::Clearance::To::sync_point;
      Release message = message_of(release);
      message.lease = ++leases_[release.worker];
      if (const auto noise = noise_.estimator().noise_scale()) {
        message.knows_noise = 1;
        message.noise_scale = *noise;
      }
      for (const int member : teams_.members(release.worker)) {
        command.released.push_back(member);
        delegate_.tell(member, message);
      }
    }
    some = true;
  }
  flush();
}

std::string ServerCoordinator::report() const {
  const pace::PaceReport report = head_.report();
  json workers = json::array(), choices = json::array();
  for (const auto& worker : report.workers) workers.push_back(to_json(worker));
  for (const auto& choice : report.choices) choices.push_back(to_json(choice));
  json out{{"updates", report.updates},
           {"samples", report.samples},
           {"samples_dropped", report.samples_dropped},
           {"non_finite_pushes", report.non_finite_pushes},
           {"mean_staleness", report.mean_staleness},
           {"worst_staleness", report.worst_staleness},
           {"mean_staleness_steps", report.mean_staleness_steps},
           {"worst_staleness_steps", report.worst_staleness_steps},
           {"workers", workers},
           {"choices", choices}};
  if (const auto noise = noise_.estimator().noise_scale()) out["noise_scale"] = *noise;
  return out.dump();
}

}  // namespace asup::ps
