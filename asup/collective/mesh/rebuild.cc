#include <algorithm>

#include "asup/collective/mesh/control_messages.h"
#include "asup/collective/mesh/mesh_communicator_impl.h"

namespace asup::collective {
namespace {

// Who is late is ruled on when the last of the others has waited for it, which may have begun
// later.
constexpr Seconds kTimeForWords{20};

std::vector<int> sorted(std::vector<int> members) {
  std::sort(members.begin(), members.end());
  return members;
}

}  // namespace

// A member that rebuilds has given up our calls with it; unless it waited for us in vain, has come
// again, and says once more what we went on with.
void MeshCommunicator::hear_who_is_left(int member, const Survivors::View& view) {
  const bool is_agreed = view.generation < generation_ && view.left == sorted(group_.members);
  if (is_agreed && !survivors_) return;
  views_[member] = view;
  if (survivors_) {
    survivors_->hear(member, view);
    return;
  }
  const auto place = std::find(group_.members.begin(), group_.members.end(), member);
  fail({Outcome::Kind::broken,
        fmt::format("{} rebuilds the communicator",
                    name_of_member(static_cast<int>(place - group_.members.begin())))});
}

Outcome MeshCommunicator::rebuild(Seconds timeout) {
  const net::MeshLock lock(mesh_.loop());
  mesh_.run_posted();
  fail({Outcome::Kind::broken, "the communicator is being rebuilt"});
  Survivors survivors(mesh_.rank(), generation_, group_.members);
  for (const auto& [member, view] : views_) survivors.hear(member, view);
  survivors_ = &survivors;
  std::set<int> gone;
  const Seconds patience = timeout.count() > 0 ? timeout : options_.timeout;
  const auto agreed = [&] { return agree(survivors, gone); };
  mesh_.loop().drive(agreed, after(patience));
  if (!agreed() && mesh_.miss(survivors.missing()))
    mesh_.loop().drive(agreed, after(std::max(patience, kTimeForWords)));
  survivors_ = nullptr;
  return adopt(survivors);
}

// Takes in who is gone and says what is new; true when there is nothing to wait for any more.
bool MeshCommunicator::agree(Survivors& survivors, std::set<int>& gone) {
  for (const int member : group_.members) {
    const net::LinkEnd end = mesh_.end_of(member);
    // One that has agreed may have ended its part of what comes next, and left.
    const bool here =
        !mesh_.is_gone(member) || (end == net::LinkEnd::left && survivors.agrees(member));
    if (!here && gone.insert(member).second) survivors.lose(member);
  }
  if (const auto view = survivors.news())
    for (const int member : group_.members)  // those left out hear of it too
      if (member != mesh_.rank()) mesh_.send_note(member, lineage_, kLeft, write_view(*view));
  return survivors.agreed() || survivors.left_out_by();
}

// The next generation, on channels of its own: what still comes for an older one is dropped.
Outcome MeshCommunicator::adopt(const Survivors& survivors) {
  const auto ranks_here = [&](const std::vector<int>& members) {
    std::vector<int> ranks;
    for (int r = 0; r < size(); ++r)
      if (std::count(members.begin(), members.end(), group_.members[static_cast<std::size_t>(r)]))
        ranks.push_back(r);
    return ranks;
  };
  if (const auto by = survivors.left_out_by()) {
    const std::vector<int> ranks = ranks_here({*by});
    return broken_ = {Outcome::Kind::lost,
                      fmt::format("{} went on without this rank: it had lost it", names_of(ranks)),
                      {rank()}};
  }
  if (!survivors.agreed()) {
    const std::vector<int> ranks = ranks_here(survivors.missing());
    return broken_ = {Outcome::Kind::late,
                      fmt::format("{} did not come to rebuild the communicator before the deadline",
                                  names_of(ranks)),
                      ranks};
  }
  generation_ = survivors.next_generation();
  std::vector<int> members;  // in their order
  for (const int r : ranks_here(survivors.left()))
    members.push_back(group_.members[static_cast<std::size_t>(r)]);
  group_.members = std::move(members);
  group_.rank =
      static_cast<int>(std::find(group_.members.begin(), group_.members.end(), mesh_.rank()) -
                       group_.members.begin());
  group_.id = derived_id(fmt::format("{}/generation {}", lineage_, generation_));
  prepared_.clear();
  stage_.reset();  // those who are left out may still reach the old ones
  coalesced_.reset();
  sequence_ = started_ = splits_ = 0;
  sent_.clear();
  received_.clear();
  views_.clear();
  look_at_the_group();
  return broken_ = {};
}

}  // namespace asup::collective
