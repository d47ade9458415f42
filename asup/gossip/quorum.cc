#include "asup/gossip/quorum.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "asup/base/error.h"
#include "asup/net/membership/roles.h"

namespace asup::gossip {
namespace {

constexpr std::uint64_t kMilestones = 4;  // of one round, none included

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
      fates_(static_cast<std::size_t>(group.workers)),
      heard_(static_cast<std::size_t>(group.workers)) {
  round_.workers = group_.members();
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
  round_.workers = workers;
  round_.since = 0;
}

Quorum::Round Quorum::come(std::uint64_t number, const std::vector<int>& workers, Seconds patience,
                           Seconds timeout) {
  const net::MeshLock lock(group_.mesh.loop());
  first_ = workers.front();
  here_.come = number;
  if (!decides()) tell();
  const auto is_late = [&](int worker) { return worker != rank_ && heard(worker).come < number; };
  const auto someone_is_gone = [&] {
    return std::any_of(workers.begin(), workers.end(), [&](int w) { return is_gone(w); });
  };
  // After a merge that was given up, those who were in it answer.
  const bool again = is_again(number) && patience.count() > 0;
  const std::vector<int>& all = decides() && again ? round_.workers : workers;
  group_.mesh.loop().drive(
      [&] {
        if (has_failed()) return true;
        if (!decides()) return word_.decided >= number || is_gone(first_);
        return someone_is_gone() || std::none_of(all.begin(), all.end(), is_late);
      },
      after(decides() && patience.count() > 0 ? patience : timeout));
  require_sound();
  if (decides() && someone_is_gone()) return take_all_in(number, workers);
  if (word_.decided < number && is_gone(first_)) return {number, workers};
  std::vector<int> late;
  std::copy_if(all.begin(), all.end(), std::back_inserter(late), is_late);
  if (decides() && (late.empty() || patience.count() > 0)) decide(number, workers, patience);
  if (word_.decided < number)
    throw JobFailed(fmt::format("{} did not come to a round of all workers within {:g} s",
                                net::name_ranks(decides() ? late : std::vector{first_}),
                                timeout.count()));
  const std::uint64_t missed = fate(rank_).left_out;
  if (missed >= number) return {missed, {}};
  Round round{number, {}, word_.since, Seconds(static_cast<double>(word_.allowed_us) / 1e6)};
  for (const int worker : workers)
    if (fate(worker).left_out < number) round.workers.push_back(worker);
  return round_ = round;
}

Quorum::Round Quorum::take_all_in(std::uint64_t number, const std::vector<int>& workers) {
  word_.decided = number;
  word_.since = 0;
  word_.allowed_us = 0;
  tell();
  return round_ = {number, workers};
}

void Quorum::decide(std::uint64_t number, const std::vector<int>& workers, Seconds patience) {
  std::vector<int> meet;
  for (const int worker : workers) {
    if (worker == rank_ || heard(worker).come >= number)
      meet.push_back(worker);
    else
      fate(worker).left_out = number;
  }
  const bool again = is_again(number);
  tries_ = again && meet == round_.workers ? tries_ + 1 : 1;
  word_.decided = number;
  word_.since = again || meet != round_.workers ? number : round_.since;
  word_.allowed_us = static_cast<std::uint64_t>(std::ceil(tries_ * patience.count() * 1e6));
  tell();
}

bool Quorum::agree(Milestone milestone, Seconds timeout) {
  const net::MeshLock lock(group_.mesh.loop());
  const std::uint64_t number = round_.number;
  const std::uint64_t reached = number * kMilestones + static_cast<std::uint64_t>(milestone);
  here_.reached = reached;
  if (!decides()) {
    tell();
    const bool said = group_.mesh.loop().drive(
        [&] {
          return fate(rank_).agreed >= reached || word_.given_up >= number || is_gone(first_) ||
                 has_failed();
        },
        after(timeout));
    require_sound();
    if (is_gone(first_) && fate(rank_).agreed < reached)
      throw PeerLost(fmt::format("rank {} was lost in a round of all workers", first_));
    if (!said)
      throw JobFailed(
          fmt::format("rank {} did not say within {:g} s whether a round of all "
                      "workers goes on",
                      first_, timeout.count()));
    return fate(rank_).agreed >= reached;
  }
  const auto& those = round_.workers;
  const auto all_have = [&] {
    return std::all_of(those.begin(), those.end(), [&](int worker) {
      return worker == rank_ || heard(worker).reached >= reached;
    });
  };
  group_.mesh.loop().drive(
      [&] {
        return has_failed() || all_have() ||
               std::any_of(those.begin(), those.end(), [&](int worker) {
                 return is_gone(worker) || heard(worker).gave_up >= number;
               });
      },
      after(round_.allowed));
  require_sound();
  if (!all_have()) return false;
  for (const int worker : those) fate(worker).agreed = reached;
  tell();
  return true;
}

void Quorum::give_up() {
  const net::MeshLock lock(group_.mesh.loop());
  here_.gave_up = round_.number;
  if (decides()) word_.given_up = round_.number;
  tell();
}

// The first worker tells all, the others tell the first.
void Quorum::tell() {
  if (!decides()) {
    messenger_->send_kept(first_, head_of(here_), {});
    return;
  }
  for (int worker = 0; worker < group_.workers; ++worker)
    if (worker != rank_ && !is_gone(worker))
      messenger_->send_kept(worker, head_of(word_), bytes_of(fates_));
}

void Quorum::arrived(int member, net::ConstBytes head, net::Bytes payload) {
  if (const auto here = read<Here>(head)) {
    heard_[static_cast<std::size_t>(member)] = *here;
  } else if (const auto word = read<QuorumMessage>(head); word && word->decided >= word_.decided) {
    if (copy_all(payload, fates_)) word_ = *word;
  }
}

}  // namespace asup::gossip
