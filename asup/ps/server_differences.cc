// What a server hands out where parameters travel in a code (coded_difference.h): all as it is to a
// worker that has nothing yet, and from then on what has changed. Workers that get the same share
// their shadow, and what is coded for them; who goes on alone has one of its own from then on.
#include <algorithm>
#include <cstring>

#include "asup/ps/server.h"

namespace asup::ps {
namespace {

bool are_equal(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::shared_ptr<Shadow> copy_of(const Shadow& shadow) {
  auto copy = std::make_shared<Shadow>();
  copy->values = Floats(shadow.values.size());
  std::memcpy(copy->values.data(), shadow.values.data(), shadow.values.size() * sizeof(float));
  return copy;
}

}  // namespace

void Server::plan_differences(const Command& command) {
  differences_.clear();
  codings_.clear();
  std::map<Shadow*, std::vector<int>> behind;  // workers, by their shadow
  for (const int worker : command.released) {
    WorkerSession& to = session(worker);
    if (!to.is_open()) continue;
    if (!to.shadow()) {
      plan_whole(worker, command.version);
      continue;
    }
    if (to.shadow()->version == command.version)
      differences_[worker] = nullptr;
    else
      behind[to.shadow().get()].push_back(worker);
    if (!to.plain_ranges().empty()) job_.targets.push_back({to.plain_ranges(), to.target()});
  }
  for (const auto& [shadow, workers] : behind) plan_difference(workers, command.version);
}

// To one that has nothing yet.
void Server::plan_whole(int worker, std::uint64_t version) {
  WorkerSession& to = session(worker);
  job_.targets.push_back({to.ranges(), to.target()});
  for (const auto& other : sessions_)
    if (other->shadow() && other->shadow()->is_whole && other->shadow()->version == version &&
        other->ranges() == to.ranges())
      return to.set_shadow(other->shadow());
  auto shadow = std::make_shared<Shadow>();
  shadow->values = Floats(shard_->range().size());
  shadow->version = version;
  shadow->is_whole = true;
  job_.targets.push_back({to.ranges(), shadow->values.data()});
  to.set_shadow(std::move(shadow));
}

// To those that have the same.
void Server::plan_difference(const std::vector<int>& workers, std::uint64_t version) {
  std::shared_ptr<Shadow> shadow = session(workers.front()).shadow();
  const auto having = std::ranges::count_if(
      sessions_, [&](const auto& session) { return session->shadow() == shadow; });
  if (having > std::ssize(workers)) shadow = copy_of(*shadow);
  shadow->version = version;
  shadow->is_whole = false;
  const auto& front = session(workers.front());
  const auto difference =
      std::make_shared<CodedDifference>(coded_, shard_->range(), shadow, front.ranges());
  for (const int worker : workers) {
    session(worker).set_shadow(shadow);
    differences_[worker] = difference;
  }
  for (std::size_t piece = 0; piece < difference->pieces(); ++piece)
    codings_.push_back({difference.get(), piece});
  if (setup_->compensation > 0 && !front.plain_ranges().empty())
    job_.targets.push_back({front.plain_ranges(), shadow->values.data()});
}

// The end first, as hand_out() has it.
void Server::send_difference(int worker, const std::shared_ptr<CodedDifference>& difference) {
  if (!difference) {
    for (const Range& range : session(worker).ranges())
      for (const CodedParts::Piece& piece : coded_.cut(range))
        if (piece.coded) send(worker, head_of(Difference{version_, piece.range}));
    return;
  }
  for (std::size_t piece = difference->pieces(); piece-- > 0;)
    messenger_->send(worker, head_of(Difference{version_, difference->range(piece)}),
                     difference->bytes(piece), [difference] {});  // keeps the bytes
}

void Server::on_known(int worker, const Known& known, net::ConstBytes payload) {
  if (!session(worker).is_open()) return;
  std::string complaint;
  if (!welcomed_ || known.version > version_)
    complaint = "it tells what it has of a version that there is not yet";
  else
    complaint = session(worker).add(known, payload);
  if (!complaint.empty()) return refuse(worker, complaint);
  if (known.range.end == shard_->range().end) share_shadow(worker);
}

// With workers that have told the same.
void Server::share_shadow(int worker) {
  WorkerSession& from = session(worker);
  for (const auto& other : sessions_) {
    const auto& shadow = other->shadow();
    if (shadow && shadow != from.shadow() && shadow->version == from.shadow()->version &&
        other->ranges() == from.ranges() && are_equal(shadow->values, from.shadow()->values))
      return from.set_shadow(shadow);
  }
}

}  // namespace asup::ps
