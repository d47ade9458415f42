#include "asup/train/loop/quorum_rounds.h"

#include <algorithm>
#include <utility>

#include "asup/base/log.h"
#include "asup/net/membership/roles.h"

namespace asup::train {

QuorumRounds::QuorumRounds(RunState& run, Job& job, Seconds patience)
    : run_(run),
      patience_(patience),
      timeout_(run.config().timeout),
      quorum_(net::workers_of(job)) {}

std::array<SubgroupCommunicator*, 2> QuorumRounds::communicators() const {
  return {&dynamic_cast<SubgroupCommunicator&>(*run_.context().control),
          &dynamic_cast<SubgroupCommunicator&>(*run_.context().gradients)};
}

std::optional<std::uint64_t> QuorumRounds::come(std::uint64_t number,
                                                const std::vector<int>& workers,
                                                bool wait_for_all) {
  if (patience_.count() == 0) return std::nullopt;
  if (workers.size() < std::exchange(known_left_, workers.size())) quorum_.regrouped(workers);
  // The others wait longer than the first worker does, which may wait for one that is late.
  const auto round =
      quorum_.come(number, workers, wait_for_all ? Seconds(0) : patience_, timeout_ + patience_);
  log_who_takes_part(round, workers);
  given_up_ = false;
  allowed_ = round.allowed;
  if (round.workers.empty()) return round.number;
  for (SubgroupCommunicator* each : communicators()) {
    each->regroup(round.since, round.workers);
    allowed_.count() > 0 ? each->bound(after(allowed_), allowed_) : each->unbound();
  }
  return std::nullopt;
}

void QuorumRounds::log_who_takes_part(const gossip::Quorum::Round& round,
                                      const std::vector<int>& workers) const {
  if (round.workers.empty()) {
    log().info(given_up_ ? "held up a merge, which takes place without it, and joins the next one"
                         : "came too late for a merge, and joins the next one");
    return;
  }
  if (!given_up_ || !run_.is_first_rank()) return;
  std::vector<int> others;
  std::set_difference(workers.begin(), workers.end(), round.workers.begin(), round.workers.end(),
                      std::back_inserter(others));
  if (!others.empty())
    log().warn("a merge was not done within {:g} s: it is done again without {}", allowed_.count(),
               net::name_ranks(others));
  else if (round.allowed > allowed_)
    log().warn(
        "a merge was not done within {:g} s: all try again, and it may take {:g} s. A longer "
        "merge-deadline saves them that.",
        allowed_.count(), round.allowed.count());
}

void QuorumRounds::is_merged() {
  for (SubgroupCommunicator* each : communicators()) each->bound(Deadline::max(), allowed_);
}

void QuorumRounds::wait_as_long_as_it_takes() {
  allowed_ = Seconds(0);
  for (SubgroupCommunicator* each : communicators()) each->unbound();
}

void QuorumRounds::agree(Milestone milestone) {
  if (allowed_.count() == 0) {
    if (milestone == Milestone::ended) run_.control().barrier().or_throw();
    return;
  }
  given_up_ = !quorum_.agree(milestone, timeout_);
  if (given_up_) throw JobFailed("a round of workers was not held to its end in time");
}

bool QuorumRounds::give_up(const JobFailed& error) {
  const auto group = communicators();
  const bool was_late = given_up_ || std::any_of(group.begin(), group.end(),
                                                 [](const auto* each) { return each->was_late(); });
  if (allowed_.count() == 0 || !was_late || dynamic_cast<const PeerLost*>(&error) != nullptr) {
    wait_as_long_as_it_takes();
    return false;
  }
  given_up_ = true;
  quorum_.give_up();
  // One that was halted between two calls would wait for the others in the next.
  for (SubgroupCommunicator* each : group) each->abandon();
  return true;
}

}  // namespace asup::train
