// Who takes part in a merge of workers that go at their own pace, where a late one is not waited
// for, and whether the merge is ended or given up.
//
// A worker that is ready for a merge says so to the first of them. That one waits until all others
// are ready, or until its patience ends, and then says who takes part; what it says stands. Whoever
// is left out goes on by itself, and takes part in the next merge. Those in it say how far they
// are: a place counts as reached when the first says that all have reached it. A worker that cannot
// go on because another does not gives the merge up, all follow, and merge again, under the next
// number: without those who are not ready again, and without those whose links hold it up, by bytes
// that do not arrive. Who has held up several in a row is left out of some more.
//
// So nothing that all are to do or nobody hangs on who heard what: the first worker decides, and is
// waited for by all. Used by the thread that trains.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "asup/base/clock.h"
#include "asup/gossip/message.h"
#include "asup/net/member_group.h"
#include "asup/net/transport/messenger.h"

namespace asup::gossip {

class Quorum : private net::Messenger::Handler {
 public:
  explicit Quorum(net::MemberGroup group);
  ~Quorum() override;

  struct Meeting {             // one merge
    std::uint64_t number = 0;  // this one, or the last that took place without this worker
    std::vector<int> workers;  // who takes part, ascending; nobody: it takes place without this one
    // The merge since which it has been the same workers, and none was given up; 0: the first.
    std::uint64_t since = 0;
    Seconds allowed{0};  // for its merge; zero: as long as it takes
  };

  // This worker is ready for merge `number`, counted from 1. `workers`: all there are, ascending.
  // The first of them says who takes part, and waits no longer than its patience (zero: as long as
  // it takes), which is also what a merge is allowed; where no link holds up those who could not
  // end one in time, twice as long. This worker is ready to wait for that until the timeout. Where
  // one of them is gone, all are to take part, and will miss it: the first worker says so too, lest
  // it has just decided without the one that is gone. Throws JobFailed.
  Meeting come(std::uint64_t number, const std::vector<int>& workers, Seconds patience,
               Seconds timeout);

  // Places in a merge, in this order; some may be left out, by all alike.
  enum class Place : std::uint64_t { merged = 1, counted = 2, ended = 3 };
  // This worker has reached a place in the merge that it takes part in; true: so have all. False:
  // the merge is given up. needs: a merge whose time is limited. Throws JobFailed.
  bool agree(Place place, Seconds timeout);
  // This worker does not end the merge that it takes part in, and will come to the next number.
  void give_up();

  // All who are left, and nobody else, have agreed on each other by other means.
  void regrouped(const std::vector<int>& workers);

 private:
  net::Bytes room_for(int, net::ConstBytes, std::uint64_t) override { return {}; }
  void arrived(int member, net::ConstBytes head, net::Bytes payload) override;
  void gone(int, net::LinkEnd) override {}

  // What the first worker says of one.
  struct Fate {
    std::uint64_t left_out = 0;  // the last merge without it
    std::uint64_t agreed = 0;    // the last place that all have reached of one with it
  };
  // What it knows of one.
  struct Known {
    Here here;
    std::vector<std::uint64_t> owed;  // bytes, by worker
    std::uint64_t welcome = 0;        // not before this merge, unless all are waited for
    int held_up = 0;                  // merges in a row
  };

  bool decides() const { return first_ == rank_; }
  Fate& fate(int worker) { return fates_[static_cast<std::size_t>(worker)]; }
  Known& of(int worker) { return known_[static_cast<std::size_t>(worker)]; }
  bool is_gone(int worker) const { return group_.mesh.end_of(worker) != net::LinkEnd::open; }
  bool is_again(std::uint64_t number) const { return number > 1 && word_.given_up == number - 1; }
  void tell();
  std::vector<std::uint64_t> still_owed();
  void wait_until_links_are_free(Seconds at_most);
  std::vector<int> awaited(std::uint64_t number, const std::vector<int>& workers, Seconds patience);
  Meeting have_all_meet(std::uint64_t number, const std::vector<int>& workers);
  void decide(std::uint64_t number, const std::vector<int>& workers, Seconds patience);
  std::vector<int> holders_up(const std::vector<int>& workers);

  const net::MemberGroup group_;
  const int rank_;

  // Under the lock.
  int first_ = 0;                     // of the workers
  Here here_;                         // this worker's own
  std::vector<std::uint64_t> bound_;  // bytes, by worker, under way when a merge was given up
  QuorumMessage word_;                // the first worker's last
  std::vector<Fate> fates_;           // by worker, as it says
  Meeting meeting_;                   // the last that this worker took part in

  // The first worker's.
  std::vector<Known> known_;  // by worker
  Seconds allowed_{0};
  Clock::time_point decided_at_;

  std::optional<net::Messenger> messenger_;
};

}  // namespace asup::gossip
