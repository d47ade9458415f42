#include <algorithm>

#include "asup/collective/mesh/control_messages.h"
#include "asup/collective/mesh/mesh_communicator_impl.h"
#include "asup/collective/plan/build.h"

namespace asup::collective {
namespace {

constexpr Seconds kAnswerTime{1};

}  // namespace

void MeshCommunicator::look_for_trouble(PendingCall& pending) {
  if (const std::string& mismatch = pending.execution->mismatch(); !mismatch.empty()) {
    fail({Outcome::Kind::mismatch, "ranks call different things: " + mismatch});
    return;
  }
  if (pending.endings_seen != mesh_.endings()) look_for_the_gone(pending);
  if (!pending.done()) look_at_the_clock(pending);
}

// A lost member breaks every communicator it is in; one that left only breaks a call that still
// waits for it.
void MeshCommunicator::look_for_the_gone(PendingCall& pending) {
  pending.endings_seen = mesh_.endings();
  const std::vector<int> waiting = pending.execution->waiting_for();
  for (int peer = 0; peer < size(); ++peer) {
    const int member = group_.members[static_cast<std::size_t>(peer)];
    const auto end = mesh_.end_of(member);
    const bool waited_for = std::count(waiting.begin(), waiting.end(), peer) > 0;
    if (end == net::LinkEnd::lost || (end == net::LinkEnd::left && waited_for)) {
      fail({Outcome::Kind::lost,
            fmt::format("{} {} during {}", name_of_member(peer), mesh_.describe_end(member),
                        pending.envelope.describe()),
            {peer}});
      return;
    }
  }
  // Rounds to come may still meet a member that left: look again then.
  for (int peer = 0; peer < size(); ++peer)
    if (mesh_.end_of(group_.members[static_cast<std::size_t>(peer)]) != net::LinkEnd::open)
      pending.endings_seen = ~std::uint64_t{0};
}

// At the deadline the others are asked where they are, so that those who did not come are named and
// not those who wait like us; or earlier, to find out who is silent.
void MeshCommunicator::look_at_the_clock(PendingCall& pending) {
  const auto now = mesh_.loop().now();
  const bool watches = pending.silence.count() > 0;
  if (watches && now >= pending.deadline) return end_late(pending);
  if (!pending.asked) {
    if (now >= pending.ask_at) ask_where_they_are(pending);
    return;
  }
  const bool all_answered =
      std::count(pending.answers.begin(), pending.answers.end(), PendingCall::kNoAnswer) == 0;
  if (!all_answered && now < pending.answers_due) return;
  if (!all_answered || !watches) return end_late(pending);
  pending.asked = false;
  pending.ask_at = now + std::chrono::duration_cast<Clock::duration>(pending.silence);
}

void MeshCommunicator::ask_where_they_are(PendingCall& pending) {
  const Seconds answer_time = pending.silence.count() > 0 ? pending.silence : kAnswerTime;
  pending.asked = true;
  pending.answers_due =
      mesh_.loop().now() + std::chrono::duration_cast<Clock::duration>(answer_time);
  pending.answers.assign(group_.members.size(), PendingCall::kNoAnswer);
  pending.answers[static_cast<std::size_t>(rank())] = started_;
  pending.waits.assign(group_.members.size(), -1);
  for (int peer = 0; peer < size(); ++peer)
    if (peer != rank())
      mesh_.send_note(group_.members[static_cast<std::size_t>(peer)], lineage_, kWhere, {});
}

void MeshCommunicator::end_late(PendingCall& pending) {
  std::vector<int> late;
  const bool collective = !is_point_to_point(pending.envelope.collective);
  for (int peer = 0; pending.asked && peer < size(); ++peer) {
    const std::uint64_t answer = pending.answers[static_cast<std::size_t>(peer)];
    if (answer == PendingCall::kNoAnswer || (collective && answer < pending.envelope.sequence))
      late.push_back(peer);
  }
  if (late.empty()) late = whom_all_wait_for(pending);
  fail({Outcome::Kind::late,
        fmt::format("{} did not come to {} before the deadline", names_of(late),
                    pending.envelope.describe()),
        late});
}

// Of a message: its sender may wait for that of another one itself, and so on: the last of these
// waits for nobody.
std::vector<int> MeshCommunicator::whom_all_wait_for(const PendingCall& pending) const {
  std::vector<int> late = pending.execution->waiting_for();
  if (!is_point_to_point(pending.envelope.collective) || late.empty() || !pending.asked)
    return late;
  int peer = late.front();
  for (int hops = 0; hops < size(); ++hops) {
    const int next = pending.waits[static_cast<std::size_t>(peer)];
    if (next < 0 || next == rank() || next >= size()) break;
    peer = next;
  }
  return {peer};
}

// Whose message this rank stands still for.
std::optional<int> MeshCommunicator::waits_for() const {
  for (const auto& [number, queue] : queues_)
    for (const PendingCallPtr& pending : queue)
      if (pending->is_waited_for && pending->envelope.collective == Collective::recv)
        return pending->envelope.root;
  return std::nullopt;
}

void MeshCommunicator::on_note(int member, std::uint32_t kind, std::string_view text) {
  const auto place = std::find(group_.members.begin(), group_.members.end(), member);
  if (place == group_.members.end()) return;
  const auto peer = static_cast<std::size_t>(place - group_.members.begin());
  switch (kind) {
    case kFailed:
      if (const auto failure = read_failure(text); failure && failure->generation == generation_)
        fail(failure->outcome);
      break;
    case kWhere:
      mesh_.send_note(member, lineage_, kHere, write_whereabouts({started_, waits_for()}));
      break;
    case kHere:
      hear_where_it_is(peer, text);
      break;
    case kLeft:
      if (const auto view = read_view(text)) hear_who_is_left(member, *view);
      break;
    default:
      break;
  }
}

void MeshCommunicator::hear_where_it_is(std::size_t peer, std::string_view text) {
  const auto whereabouts = read_whereabouts(text);
  if (!whereabouts) return;
  for (auto& [number, queue] : queues_)
    for (const PendingCallPtr& pending : queue) {
      if (!pending->asked) continue;
      pending->answers[peer] = whereabouts->started;
      pending->waits[peer] = whereabouts->waits_for.value_or(-1);
    }
}

// Ends every call, now and later, with `why`, and passes it on, so that all ranks tell the same
// story even when the first to know leaves before the others have looked.
void MeshCommunicator::fail(Outcome why) {
  if (!broken_.ok()) return;
  broken_ = why;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    for (int lane = 0; lane < kMaxLanes; ++lane)
      group_.link(peer).forget(channel_of(group_.id, lane));
    group_.link(peer).forget(channel_of(group_.id, kPointToPointLane));
    mesh_.send_note(group_.members[static_cast<std::size_t>(peer)], lineage_, kFailed,
                    write_failure({generation_, why}));
  }
  for (auto& [number, queue] : queues_)
    for (const PendingCallPtr& pending : queue) pending->finish(why);
  for (auto& [number, queue] : queues_) queue.clear();
  pending_ = 0;
}

void MeshCommunicator::abandon() {
  const net::MeshLock lock(mesh_.loop());
  fail({Outcome::Kind::late,
        fmt::format("{} has given the group up", name_of_member(rank())),
        {rank()}});
}

std::string MeshCommunicator::name_of_member(int rank) const {
  const int member = group_.members[static_cast<std::size_t>(rank)];
  return mesh_.roster().members[static_cast<std::size_t>(member)].describe();
}

std::string MeshCommunicator::names_of(const std::vector<int>& ranks) const {
  std::string names;
  for (const int r : ranks)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name_of_member(r));
  return names;
}

}  // namespace asup::collective
