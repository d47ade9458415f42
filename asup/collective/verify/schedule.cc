#include "asup/collective/verify/schedule.h"

#include <algorithm>

#include "asup/base/error.h"

namespace asup::collective::proof {
namespace {

const Lane kNoRounds;

class Schedule {
 public:
  Schedule(const Spec& spec, const std::vector<Plan>& plans, int lane, const Messages& messages,
           Effects& effects)
      : plans_(plans),
        lane_(lane),
        messages_(messages),
        effects_(effects),
        ranks_(spec.ranks),
        arrived_(messages.all.size(), false) {}

  void run() {
    for (int rank = static_cast<int>(ranks_.size()) - 1; rank >= 0; --rank) ready_.push_back(rank);
    while (!ready_.empty()) {
      const int rank = ready_.back();
      ready_.pop_back();
      advance(rank);
    }
    for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
      if (ranks_[rank].round < static_cast<int>(rounds(rank).size())) refute_stuck(rank);
    }
  }

 private:
  struct Rank {
    int round = 0;
    int open = 0;            // messages of this round that have not passed
    std::size_t next = 0;    // of this rank's messages, the first of this round
    std::size_t behind = 0;  // of this rank's messages, the first of the next round
  };

  const Lane& rounds(int rank) const {
    const auto& lanes = plans_[rank].lanes;
    return lane_ < static_cast<int>(lanes.size()) ? lanes[lane_] : kNoRounds;
  }

  // Runs memory rounds, then comes to the messages of the next round and waits there.
  void advance(int rank) {
    Rank& state = ranks_[rank];
    const Lane& lane = rounds(rank);
    for (; state.round < static_cast<int>(lane.size()); end_round(rank)) {
      const Round& round = lane[state.round];
      if (round.empty()) continue;
      if (round.front().is_message()) return arrive(rank, round);
      effects_.work({rank, lane_, state.round, 0}, round);
    }
  }

  void arrive(int rank, const Round& round) {
    Rank& state = ranks_[rank];
    state.open = static_cast<int>(round.size());
    state.behind = state.next + round.size();
    for (std::size_t i = state.next; i < state.behind; ++i) {
      const std::uint32_t m = messages_.by_rank[rank][i];
      if (!arrived_[m]) {
        arrived_[m] = true;  // and the other side, when it comes, finds it so
        continue;
      }
      const Message& message = messages_.all[m];
      effects_.pass(message);
      close(message.send.rank);
      close(message.recv.rank);
    }
  }

  void close(int rank) {
    Rank& state = ranks_[rank];
    if (--state.open > 0) return;
    state.next = state.behind;
    end_round(rank);
    ready_.push_back(rank);
  }

  void end_round(int rank) {
    effects_.end_round(rank);
    ++ranks_[rank].round;
  }

  // The first message a stuck rank waits for: its own side has arrived, the other has not.
  const Message& awaited(int rank) const {
    const Rank& state = ranks_[rank];
    for (std::size_t i = state.next; i < state.behind; ++i) {
      const Message& message = messages_.all[messages_.by_rank[rank][i]];
      const Site& other = message.send.rank == rank ? message.recv : message.send;
      if (ranks_[other.rank].round < other.round) return message;
    }
    throw Error(fmt::format("rank {} waits for nothing", rank));
  }

  static int other_rank(const Message& message, int rank) {
    return message.send.rank == rank ? message.recv.rank : message.send.rank;
  }

  // Whoever a stuck rank waits for is stuck too, so following them leads into a circle.
  [[noreturn]] void refute_stuck(int rank) const {
    for (std::size_t i = 0; i < ranks_.size(); ++i) rank = other_rank(awaited(rank), rank);
    std::vector<int> circle = {rank};
    for (int r = other_rank(awaited(rank), rank); r != rank; r = other_rank(awaited(r), r)) {
      circle.push_back(r);
    }
    std::rotate(circle.begin(), std::min_element(circle.begin(), circle.end()), circle.end());
    const int first = circle.front();
    const Message& message = awaited(first);
    const bool sends = message.send.rank == first;
    const Site& site = sends ? message.send : message.recv;
    const Step& step = step_at(plans_, site);
    refute(site, sends ? step.src : step.dst, "{}: deadlock: {}", describe(step), in_words(circle));
  }

  // "rank 0 waits for rank 1, which waits for rank 0"
  static std::string in_words(const std::vector<int>& circle) {
    constexpr std::size_t kShown = 6;
    std::string text = fmt::format("rank {} waits for", circle.front());
    for (std::size_t i = 1; i < std::min(circle.size(), kShown); ++i) {
      text += fmt::format(" rank {}, which waits for", circle[i]);
    }
    if (circle.size() > kShown)
      text += fmt::format(" … {} more, the last of which waits for", circle.size() - kShown);
    return text + fmt::format(" rank {}", circle.front());
  }

  const std::vector<Plan>& plans_;
  const int lane_;
  const Messages& messages_;
  Effects& effects_;
  std::vector<Rank> ranks_;
  std::vector<bool> arrived_;  // by message: one side has come
  std::vector<int> ready_;     // ranks that can go on
};

}  // namespace

void run_lane(const Spec& spec, const std::vector<Plan>& plans, int lane, const Messages& messages,
              Effects& effects) {
  Schedule(spec, plans, lane, messages, effects).run();
}

}  // namespace asup::collective::proof
