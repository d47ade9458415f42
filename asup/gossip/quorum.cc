#include "asup/gossip/quorum.h"

#include <algorithm>
#include <cstring>

#include "asup/base/error.h"
#include "asup/gossip/stuck_links.h"
#include "asup/net/membership/roles.h"

namespace asup::gossip {
namespace {

constexpr std::uint64_t kPlaces = 4;  // of one merge, none included

// How long links have to get rid of what was under way when a merge was given up: a part of what
// a merge is allowed. One that could have ended it in little more than that does so in less.
Seconds time_to_drain(Seconds allowed) { return std::min(allowed / 4, Seconds(1)); }

// Who holds up one merge after the other is left out of twice as many each time.
std::uint64_t meetings_left_out(int held_up) {
  constexpr int kMostDoublings = 5;
  return std::uint64_t{1} << std::min(held_up - 1, kMostDoublings);
}

bool has(const std::vector<int>& workers, int worker) {
  return std::binary_search(workers.begin(), workers.end(), worker);
}

template <typename T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

// False where there is not one for each.
template <typename T>
bool copy_all(net::ConstBytes bytes, std::vector<T>& values) {
  if (bytes.size() != values.size() * sizeof(T)) return false;
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return true;
}

}  // namespace

Quorum::Quorum(net::MemberGroup group)
    : group_(group),
      rank_(group.mesh.rank()),
      bound_(static_cast<std::size_t>(group.workers)),
      fates_(static_cast<std::size_t>(group.workers)),
      known_(static_cast<std::size_t>(group.workers)) {
  for (Known& each : known_) each.owed.resize(known_.size());
  meeting_.workers = group_.members();
  const net::MeshLock lock(group_.mesh.loop());
  messenger_.emplace(group_.mesh, group_.id, group_.members(),
                     static_cast<net::Messenger::Handler&>(*this));
  messenger_->open();
}

Quorum::~Quorum() {
  const net::MeshLock lock(group_.mesh.loop());
  group_.mesh.loop().drive([&] { return !messenger_->has_unsent(); }, after(Seconds(1)));
  messenger_.reset();
}

void Quorum::regrouped(const std::vector<int>& workers) {
  const net::MeshLock lock(group_.mesh.loop());
  meeting_.workers = workers;
  meeting_.since = 0;
}

Quorum::Meeting Quorum::come(std::uint64_t number, const std::vector<int>& workers,
                             Seconds patience, Seconds timeout) {
  const net::MeshLock lock(group_.mesh.loop());
  first_ = workers.front();
  if (number > 1 && here_.gave_up == number - 1)
    wait_until_links_are_free(time_to_drain(meeting_.allowed));
  here_.come = number;
  if (!decides()) tell();
  const auto is_late = [&](int worker) { return worker != rank_ && of(worker).here.come < number; };
  const auto someone_is_gone = [&] {
    return std::any_of(workers.begin(), workers.end(), [&](int w) { return is_gone(w); });
  };
  const std::vector<int> all = decides() ? awaited(number, workers, patience) : workers;
  group_.mesh.loop().drive(
      [&] {
        if (!decides()) return word_.decided >= number || is_gone(first_);
        return someone_is_gone() || std::none_of(all.begin(), all.end(), is_late);
      },
      after(decides() && patience.count() > 0 ? patience : timeout));
  if (decides() && someone_is_gone()) return have_all_meet(number, workers);
  if (word_.decided < number && is_gone(first_)) return {number, workers};
  std::vector<int> late;
  std::copy_if(all.begin(), all.end(), std::back_inserter(late), is_late);
  if (decides() && (late.empty() || patience.count() > 0)) decide(number, workers, patience);
  if (word_.decided < number)
    throw JobFailed(fmt::format("{} missed a merge of all workers: not ready within {:g} s",
                                net::name_ranks(decides() ? late : std::vector{first_}),
                                timeout.count()));
  const std::uint64_t missed = fate(rank_).left_out;
  if (missed >= number) return {missed, {}};
  Meeting meeting{number, {}, word_.since, Seconds(static_cast<double>(word_.allowed_us) / 1e6)};
  for (const int worker : workers)
    if (fate(worker).left_out < number) meeting.workers.push_back(worker);
  return meeting_ = meeting;
}

Quorum::Meeting Quorum::have_all_meet(std::uint64_t number, const std::vector<int>& workers) {
  word_.decided = number;
  word_.since = 0;
  word_.allowed_us = 0;
  tell();
  return meeting_ = {number, workers};
}

// After a merge that was given up, those who took part in it.
std::vector<int> Quorum::awaited(std::uint64_t number, const std::vector<int>& workers,
                                 Seconds patience) {
  if (patience.count() == 0) return workers;
  std::vector<int> all;
  const bool again = is_again(number);
  for (const int worker : workers)
    if (again ? has(meeting_.workers, worker) : of(worker).welcome <= number) all.push_back(worker);
  return all;
}

void Quorum::decide(std::uint64_t number, const std::vector<int>& workers, Seconds patience) {
  of(rank_).owed = still_owed();
  const bool again = is_again(number);
  std::vector<int> here, meet;
  for (const int worker : workers)
    if (worker == rank_ || of(worker).here.come >= number) here.push_back(worker);
  std::vector<int> out;
  if (patience.count() > 0) out = holders_up(here);
  for (const int worker : here)
    if (patience.count() == 0 || (!has(out, worker) && of(worker).welcome <= number))
      meet.push_back(worker);
  const bool all_again =
      std::includes(meet.begin(), meet.end(), meeting_.workers.begin(), meeting_.workers.end());
  allowed_ = std::max(patience, again && all_again ? 2 * allowed_ : allowed_);
  for (const int worker : workers) {
    if (has(meet, worker)) continue;
    fate(worker).left_out = number;
    if (again && has(meeting_.workers, worker))
      of(worker).welcome = number + meetings_left_out(++of(worker).held_up);
  }
  word_.decided = number;
  word_.since = again || meet != meeting_.workers ? number : meeting_.since;
  word_.allowed_us =
      patience.count() > 0 ? static_cast<std::uint64_t>(std::max(1.0, allowed_.count() * 1e6)) : 0;
  decided_at_ = Clock::now();
  tell();
}

std::vector<int> Quorum::holders_up(const std::vector<int>& workers) {
  std::vector<StuckLink> stuck;
  for (const int from : workers)
    for (const int to : workers)
      if (const auto bytes = of(from).owed[static_cast<std::size_t>(to)]; bytes > 0)
        stuck.push_back({from, to, bytes});
  return who_holds_up(std::move(stuck), rank_);
}

bool Quorum::agree(Place place, Seconds timeout) {
  const net::MeshLock lock(group_.mesh.loop());
  const std::uint64_t number = meeting_.number;
  const std::uint64_t reached = number * kPlaces + static_cast<std::uint64_t>(place);
  here_.reached = reached;
  if (!decides()) {
    tell();
    const bool said = group_.mesh.loop().drive(
        [&] {
          return fate(rank_).agreed >= reached || word_.given_up >= number || is_gone(first_);
        },
        after(timeout));
    if (is_gone(first_) && fate(rank_).agreed < reached)
      throw PeerLost(fmt::format("rank {} was lost in a merge of all workers", first_));
    if (!said)
      throw JobFailed(
          fmt::format("rank {} did not say within {:g} s whether a merge of all "
                      "workers goes on",
                      first_, timeout.count()));
    return fate(rank_).agreed >= reached;
  }
  const auto& those = meeting_.workers;
  const auto all_have = [&] {
    return std::all_of(those.begin(), those.end(), [&](int worker) {
      return worker == rank_ || of(worker).here.reached >= reached;
    });
  };
  group_.mesh.loop().drive(
      [&] {
        return all_have() || std::any_of(those.begin(), those.end(), [&](int worker) {
                 return is_gone(worker) || of(worker).here.gave_up >= number;
               });
      },
      after(meeting_.allowed));
  if (!all_have()) return false;
  if (place == Place::merged)
    allowed_ = std::min(allowed_, 2 * Seconds(Clock::now() - decided_at_));
  for (const int worker : those) {
    fate(worker).agreed = reached;
    if (place == Place::ended) of(worker).held_up = 0;
  }
  tell();
  return true;
}

void Quorum::give_up() {
  const net::MeshLock lock(group_.mesh.loop());
  here_.gave_up = meeting_.number;
  for (int worker = 0; worker < group_.workers; ++worker)
    if (worker != rank_)
      bound_[static_cast<std::size_t>(worker)] = group_.mesh.link(worker).bytes_bound_to_leave();
  if (decides()) word_.given_up = meeting_.number;
  tell();
}

void Quorum::wait_until_links_are_free(Seconds at_most) {
  group_.mesh.loop().drive(
      [&] {
        const auto owed = still_owed();
        return std::all_of(owed.begin(), owed.end(), [](auto bytes) { return bytes == 0; });
      },
      after(at_most));
}

// By worker, of the bytes that were under way when a merge was last given up.
std::vector<std::uint64_t> Quorum::still_owed() {
  std::vector<std::uint64_t> owed(bound_.size());
  for (int worker = 0; worker < group_.workers; ++worker) {
    if (worker == rank_ || is_gone(worker)) continue;
    const std::uint64_t bound = bound_[static_cast<std::size_t>(worker)];
    const std::uint64_t delivered = group_.mesh.link(worker).bytes_delivered();
    owed[static_cast<std::size_t>(worker)] = bound > delivered ? bound - delivered : 0;
  }
  return owed;
}

// The first worker tells all, the others tell the first.
void Quorum::tell() {
  if (!decides()) {
    messenger_->send_kept(first_, head_of(here_), bytes_of(still_owed()));
    return;
  }
  for (int worker = 0; worker < group_.workers; ++worker)
    if (worker != rank_ && !is_gone(worker))
      messenger_->send_kept(worker, head_of(word_), bytes_of(fates_));
}

void Quorum::arrived(int member, net::ConstBytes head, net::Bytes payload) {
  if (const auto here = read<Here>(head)) {
    if (copy_all(payload, of(member).owed)) of(member).here = *here;
  } else if (const auto word = read<QuorumMessage>(head); word && word->decided >= word_.decided) {
    if (copy_all(payload, fates_)) word_ = *word;
  }
}

}  // namespace asup::gossip
