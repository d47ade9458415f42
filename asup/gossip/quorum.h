// Who takes part in a merge of workers that go at their own pace, where a late one is not waited
// for, and whether the merge is held to its end or given up.
//
// A worker that has come says so to the first of them. That one waits until all others have come,
// or until the deadline, and then says who takes part; what it says stands. Whoever is not among
// them goes on by itself, and comes to the next merge. Those who take part say how far they are: a
// milestone counts as reached when the first says that all have reached it. Who cannot go on
// because another does not gives the merge up, all follow, and try again, as a merge with the next
// number, with those who answer.
//
// So nothing that all are to do or nobody hangs on who heard what: the first worker decides, and is
// waited for by all. Used by the thread that trains.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "asup/base/clock.h"
#include "asup/gossip/message.h"
#include "asup/gossip/service.h"
#include "asup/net/member_group.h"
#include "asup/net/transport/messenger.h"

namespace asup::gossip {

class Quorum : private Service {
 public:
  explicit Quorum(net::MemberGroup group);
  ~Quorum() override;

  struct Round {
    std::uint64_t number = 0;  // this one, or the last that took place without this worker
    std::vector<int>
        workers;  // who takes part, ascending; nobody: it takes place without this worker
    // The round since which the same workers have taken part, and none was given up; 0: the first.
    std::uint64_t since = 0;
    Seconds allowed{0};  // for its merge; zero: as long as it takes
  };

  // This worker has come to round `number`, counted from 1. `workers`: all there are, ascending.
  // The first of them says who takes part, and waits no longer than its patience (zero: as long as
  // it takes), which is also what a merge is allowed; after one that was not done in time, each try
  // of the same workers has so much more. This worker is ready to wait for that until the timeout.
  // Where one of them is gone, all are to take part, and will miss it: the first worker says so
  // too, lest it has just decided without the one that is gone. Throws JobFailed.
  Round come(std::uint64_t number, const std::vector<int>& workers, Seconds patience,
             Seconds timeout);

  // Milestones of a round, in this order; some may be left out, by all alike.
  enum class Milestone : std::uint64_t { merged = 1, counted = 2, ended = 3 };
  // This worker has reached a milestone of the round that it has come to; true: so have all. False:
  // the round is given up. needs: a round whose time is limited. Throws JobFailed.
  bool agree(Milestone milestone, Seconds timeout);
  // This worker does not end the round that it has come to, and will come to the next number.
  void give_up();

  // All who are left, and nobody else, have come together by other means.
  void regrouped(const std::vector<int>& workers);

 private:
  net::Bytes room_for(int, net::ConstBytes, std::uint64_t) override { return {}; }
  void arrived(int member, net::ConstBytes head, net::Bytes payload) override;
  void gone(int, net::LinkEnd) override {}

  // What the first worker says of one.
  struct Fate {
    std::uint64_t left_out = 0;  // the last round without it
    std::uint64_t agreed = 0;    // the last milestone that all have reached of one with it
  };
  bool decides() const { return first_ == rank_; }
  Fate& fate(int worker) { return fates_[static_cast<std::size_t>(worker)]; }
  const Here& heard(int worker) const { return heard_[static_cast<std::size_t>(worker)]; }
  bool is_gone(int worker) const { return group_.mesh.end_of(worker) != net::LinkEnd::open; }
  bool is_again(std::uint64_t number) const { return number > 1 && word_.given_up == number - 1; }
  void tell();
  Round take_all_in(std::uint64_t number, const std::vector<int>& workers);
  void decide(std::uint64_t number, const std::vector<int>& workers, Seconds patience);

  const net::MemberGroup group_;
  const int rank_;

  // Under the lock.
  int first_ = 0;            // of the workers
  Here here_;                // this worker's own
  QuorumMessage word_;       // the first worker's last
  std::vector<Fate> fates_;  // by worker, as it says
  Round round_;              // the last that this worker took part in

  // The first worker's.
  std::vector<Here> heard_;  // by worker
  int tries_ = 1;            // of the same workers, in a row

  std::optional<net::Messenger> messenger_;
};

}  // namespace asup::gossip
