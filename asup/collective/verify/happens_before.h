// What happened before what between ranks, by vector clocks that travel with the messages, and
// whether accesses to one memory from different ranks are so ordered.
//
// L. Lamport: Time, clocks, and the ordering of events in a distributed system. CACM 21(7), 1978.
// As in C. Flanagan, S. N. Freund: FastTrack: efficient and precise dynamic race detection. PLDI
// 2009, the history of an element is its last write and the reads since, not a clock for each.
//
// Throws Refuted. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "asup/collective/plan/plan.h"
#include "asup/collective/verify/access.h"
#include "asup/collective/verify/interval_map.h"
#include "asup/collective/verify/site.h"

namespace asup::collective::proof {

class HappensBefore {
 public:
  HappensBefore(const Spec& spec, const std::vector<Plan>& plans);

  // Lanes are unordered and apart in memory: each has its own clocks and histories.
  void begin_lane();

  // The rank of `site` makes an access in its current round. It knows what it knew when the round
  // began, and what `sender` did, when the access waits for a message from there (-1: it does not).
  // Another's memory it can only find when a message came straight from there.
  void access(const Site& site, const Access& access, int sender = -1);
  void pass(int from, int to);
  void end_round(int rank);

  // After its end, a rank's memory is the caller's again: refutes accesses of others still to come.
  void end_lane(int lane);

  // Whether some lane's end at `rank` comes after the start of `other`.
  bool heard(int rank, int other) const { return heard_[index(rank, other)]; }

 private:
  using Time = std::uint32_t;       // round number, from 1; a rank's start is at 0
  using Clock = std::vector<Time>;  // by rank: all that it did before this time is known

  struct Event {
    int rank;
    Time time;
    int step;
    bool write;
  };
  struct Read {
    Event event;
    std::uint32_t before;  // the index in reads_ of the one before
  };
  struct History {
    Event write;
    // Since that write: how many, and the index in reads_ of the last. Runs that were one share
    // what they had in common.
    std::uint32_t reads = 0;
    std::uint32_t last_read = 0;
  };
  struct Owned {
    IntervalMap<History> input, output, stage;
    IntervalMap<History>& area(Area area) {
      return area == Area::input ? input : area == Area::output ? output : stage;
    }
  };

  std::size_t index(int rank, int other) const {
    return static_cast<std::size_t>(rank) * ranks_ + other;
  }
  bool knows(int rank, const Event& event) const {
    return event.rank == rank || event.time < (*known_[rank])[event.rank];
  }
  void check_met(const Site& site, const Access& access) const;
  void note(const Site& site, const Access& access, const Event& event, int sender,
            History& history);
  // The earliest read of the history that is not `known`; null: there is none.
  template <typename Known>
  const Event* unknown_read(const History& history, Known known) const;
  template <typename Known>
  void forget_reads(History& history, Known known);
  void add_read(History& history, const Event& event) {
    reads_.push_back({event, history.last_read});
    history.last_read = static_cast<std::uint32_t>(reads_.size() - 1);
    ++history.reads;
  }
  void check_end(int lane, int owner, Area area, const IntervalMap<History>& map) const;

  const Spec& spec_;
  const std::vector<Plan>& plans_;
  const int ranks_;
  // By rank. Ranks that have met know the same, and share one clock for it: a message from each of
  // them brings that clock, which is taken in once, and the sender's own time.
  std::vector<Time> now_;                             // its round
  std::vector<std::shared_ptr<const Clock>> known_;   // what it knew when the round began
  std::vector<Clock> arriving_;                       // with what has come in this round
  std::vector<std::shared_ptr<const Clock>> joined_;  // the last that came and is in arriving_
  std::shared_ptr<const Clock> latest_;               // the last that was made
  std::vector<bool> met_;      // by (rank, other): `rank` received a message from `other`
  std::vector<Owned> memory_;  // by rank
  std::vector<Read> reads_;    // of all histories
  std::vector<bool> heard_;
};

}  // namespace asup::collective::proof
