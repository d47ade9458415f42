#include "tests/collective/interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>

namespace asup::collective::testing {
namespace {

using Number = std::uint64_t;
using Numbers = std::vector<Number>;
constexpr Number kFinish = 0x9e3779b97f4a7c15;  // odd

struct Rank {
  Numbers input, output, scratch, stage, coded;
  Numbers given;   // the input, as the caller gave it
  Numbers result;  // the output, as it was at this rank's end
  bool started = false, ended = false;
};

// A run of one lane of one rank.
struct Thread {
  int rank, lane;
  std::size_t round = 0;
  bool entered = false;           // the round's work list is made
  std::vector<std::size_t> open;  // steps of a message round still to do, in any order
  struct Tile {
    std::size_t step, begin, end;
  };
  std::deque<Tile> tiles;  // of a memory round, in order
};

class Interpreter {
 public:
  Interpreter(const Spec& spec, const std::vector<Plan>& plans, std::mt19937_64& random)
      : spec_(spec), plans_(plans), random_(random), ranks_(spec.ranks), capacity_(draw(3)) {
    for (int r = 0; r < spec.ranks; ++r) {
      ranks_[r].given = garbage(spec.elements(Area::input, r));
      if (!spec.aliased(r)) ranks_[r].input = garbage(ranks_[r].given.size());
      ranks_[r].output = garbage(spec.elements(Area::output, r));
      ranks_[r].scratch = garbage(plans[r].scratch);
      ranks_[r].stage = garbage(plans[r].stage);
      ranks_[r].coded = garbage(plans[r].coded);
      for (int l = 0; l < static_cast<int>(plans[r].lanes.size()); ++l) {
        Thread& thread = threads_.emplace_back();
        thread.rank = r;
        thread.lane = l;
      }
    }
  }

  std::string run() {
    while (!everyone_ended()) {
      if (!one_event()) return "deadlock";
    }
    for (const auto& [key, queue] : queues_) {
      if (!queue.empty()) return "a message is left over";
    }
    return check();
  }

 private:
  std::size_t draw(std::size_t below) { return below == 0 ? 0 : random_() % below; }

  Numbers garbage(std::size_t count) {
    Numbers numbers(count);
    for (Number& number : numbers) number = random_();
    return numbers;
  }

  bool everyone_ended() const {
    return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.ended; });
  }

  // Something that can happen, happens: false where nothing can.
  bool one_event() {
    const std::size_t actors = ranks_.size() + threads_.size();
    const std::size_t first = draw(actors);
    for (std::size_t i = 0; i < actors; ++i) {
      const std::size_t actor = (first + i) % actors;
      if (actor < ranks_.size() ? start_or_end(static_cast<int>(actor))
                                : advance(threads_[actor - ranks_.size()])) {
        return true;
      }
    }
    return false;
  }

  bool start_or_end(int r) {
    Rank& rank = ranks_[r];
    if (!rank.started) {
      rank.started = true;
      (spec_.aliased(r) ? rank.output : rank.input) = rank.given;
      return true;
    }
    if (rank.ended || !lanes_done(r)) return false;
    rank.ended = true;
    rank.result = rank.output;
    rank.input = garbage(rank.input.size());
    rank.output = garbage(rank.output.size());
    return true;
  }

  bool lanes_done(int r) const {
    return std::all_of(threads_.begin(), threads_.end(), [&](const Thread& thread) {
      return thread.rank != r || thread.round == plans_[r].lanes[thread.lane].size();
    });
  }

  bool advance(Thread& thread) {
    const Lane& lane = plans_[thread.rank].lanes[thread.lane];
    if (!ranks_[thread.rank].started || thread.round == lane.size()) return false;
    const Round& round = lane[thread.round];
    if (!thread.entered) {
      enter(thread, round);
      return true;  // which lets a sender to it go on, where links buffer nothing
    }
    const bool moved = thread.open.empty() ? one_tile(thread, round) : one_message(thread, round);
    if (thread.open.empty() && thread.tiles.empty()) {
      ++thread.round;
      thread.entered = false;
      return true;
    }
    return moved;
  }

  void enter(Thread& thread, const Round& round) {
    thread.entered = true;
    if (!round.empty() && round.front().is_message()) {
      thread.open.resize(round.size());
      std::iota(thread.open.begin(), thread.open.end(), std::size_t{0});
      return;
    }
    std::size_t longest = 0;
    for (const Step& step : round) longest = std::max(longest, step.dst.size());
    const std::size_t tile = 1 + draw(longest);
    const bool step_by_step = draw(2) == 0;
    for (std::size_t begin = 0; begin < longest; begin += tile) {
      for (std::size_t s = 0; s < round.size(); ++s) {
        const std::size_t end = std::min(begin + tile, round[s].dst.size());
        if (begin < end) thread.tiles.push_back({s, begin, end});
      }
    }
    if (step_by_step) {
      std::stable_sort(thread.tiles.begin(), thread.tiles.end(),
                       [](const auto& a, const auto& b) { return a.step < b.step; });
    }
  }

  Number* at(int rank, const AreaRange& range) {
    Rank& owner = ranks_[rank];
    if (range.area == Area::scratch) return owner.scratch.data() + range.begin;
    if (range.area == Area::stage) return owner.stage.data() + range.begin;
    if (range.area == Area::coded) return owner.coded.data() + range.begin;
    const bool output = range.area == Area::output || spec_.aliased(rank);
    return (output ? owner.output : owner.input).data() + range.begin;
  }

  bool one_tile(Thread& thread, const Round& round) {
    if (thread.tiles.empty()) return false;
    const Thread::Tile tile = thread.tiles.front();
    thread.tiles.pop_front();
    const Step& step = round[tile.step];
    const int from = step.op == Step::Op::peer_read ? step.peer : thread.rank;
    Number* dst = at(step.op == Step::Op::peer_write ? step.peer : thread.rank, step.dst);
    for (std::size_t i = tile.begin; i < tile.end; ++i) {
      Number value = step.sums_all() ? at(from, step.own)[i] : at(from, step.src)[i];
      if (step.op == Step::Op::peer_reduce) {
        for (int r = 0; r < spec_.ranks; ++r)
          if (r != thread.rank) value += at(r, step.src)[i];
      }
      if (step.op == Step::Op::reduce_parts) {
        const std::size_t part = between_parts(step);
        for (std::size_t p = i; p < step.src.size(); p += part) value += at(from, step.src)[p];
      }
      dst[i] = step.finish ? value * kFinish : value;
    }
    return true;
  }

  using Key = std::tuple<int, int, int>;  // from, to, lane

  // Does one of the round's open messages, where one can be done. Those of one peer keep their
  // order.
  bool one_message(Thread& thread, const Round& round) {
    const std::size_t first = draw(thread.open.size());
    for (std::size_t i = 0; i < thread.open.size(); ++i) {
      const std::size_t place = (first + i) % thread.open.size();
      const Step& step = round[thread.open[place]];
      if (!is_first(thread, round, place)) continue;
      if (step.op == Step::Op::send ? send(thread, step) : receive(thread, step)) {
        thread.open.erase(thread.open.begin() + place);
        return true;
      }
    }
    return false;
  }

  static bool is_first(const Thread& thread, const Round& round, std::size_t place) {
    const Step& step = round[thread.open[place]];
    for (std::size_t i = 0; i < place; ++i) {
      const Step& other = round[thread.open[i]];
      if (other.peer == step.peer && (other.op == Step::Op::send) == (step.op == Step::Op::send)) {
        return false;
      }
    }
    return true;
  }

  // Whether the peer's thread stands in a round that awaits this message: a link without buffers.
  bool awaited(const Thread& sender, const Step& step) const {
    for (const Thread& thread : threads_) {
      if (thread.rank != step.peer || thread.lane != sender.lane || !thread.entered) continue;
      const Round& round = plans_[thread.rank].lanes[thread.lane][thread.round];
      for (const std::size_t s : thread.open) {
        if (round[s].op != Step::Op::send && round[s].peer == sender.rank) return true;
      }
    }
    return false;
  }

  bool send(const Thread& thread, const Step& step) {
    auto& queue = queues_[{thread.rank, step.peer, thread.lane}];
    const bool room = capacity_ == 2 || queue.size() < capacity_ ||
                      (capacity_ == 0 && queue.empty() && awaited(thread, step));
    if (!room) return false;
    const Number* src = at(thread.rank, step.src);
    queue.emplace_back(src, src + step.src.size());
    return true;
  }

  bool receive(const Thread& thread, const Step& step) {
    auto& queue = queues_[{step.peer, thread.rank, thread.lane}];
    if (queue.empty()) return false;
    const Numbers message = std::move(queue.front());
    queue.pop_front();
    if (message.size() != step.dst.size()) {
      wrong_length_ = true;
      return true;
    }
    const Number* src = at(thread.rank, step.src);
    Number* dst = at(thread.rank, step.dst);
    for (std::size_t i = 0; i < message.size(); ++i) {
      Number value = step.op == Step::Op::recv_reduce ? src[i] + message[i] : message[i];
      dst[i] = step.finish ? value * kFinish : value;
    }
    return true;
  }

  Number expected(int rank, std::size_t i, const std::vector<AreaRange>& blocks) const {
    switch (spec_.collective) {
      case Collective::all_reduce:
      case Collective::reduce:
      case Collective::reduce_scatter: {
        if (spec_.collective == Collective::reduce_scatter) i += blocks[rank].begin;
        Number sum = 0;
        for (const Rank& other : ranks_) sum += other.given[i];
        return spec_.ranks > 1 ? sum * kFinish : sum;
      }
      case Collective::scatter:
        return ranks_[spec_.root].given[i + blocks[rank].begin];
      case Collective::all_to_all: {
        const std::vector<AreaRange> arriving = spec_.arriving(rank);
        int sender = 0;
        while (i >= arriving[sender].end) ++sender;
        return ranks_[sender].given[spec_.leaving(sender)[rank].begin + i - arriving[sender].begin];
      }
      case Collective::all_gather:
      case Collective::gather:
        for (int r = 0; r < spec_.ranks; ++r) {
          if (i >= blocks[r].begin && i < blocks[r].end)
            return ranks_[r].given[i - blocks[r].begin];
        }
        return 0;
      default:
        return ranks_[spec_.root].given[i];
    }
  }

  std::string check() const {
    if (wrong_length_) return "a message had the wrong length";
    const std::vector<AreaRange> blocks = spec_.blocks(Area::output);  // of an all_to_all: not used
    for (int r = 0; r < spec_.ranks; ++r) {
      for (std::size_t i = 0; i < ranks_[r].result.size(); ++i) {
        if (ranks_[r].result[i] != expected(r, i, blocks)) {
          return fmt::format("output {} of rank {} is wrong", i, r);
        }
      }
    }
    return {};
  }

  const Spec& spec_;
  const std::vector<Plan>& plans_;
  std::mt19937_64& random_;
  std::vector<Rank> ranks_;
  std::vector<Thread> threads_;
  const std::size_t capacity_;  // messages a queue holds: 0, 1, or (2) any number
  std::map<Key, std::deque<Numbers>> queues_;
  bool wrong_length_ = false;
};

}  // namespace

std::string interpret(const Spec& spec, const std::vector<Plan>& plans, std::mt19937_64& random) {
  return Interpreter(spec, plans, random).run();
}

}  // namespace asup::collective::testing
