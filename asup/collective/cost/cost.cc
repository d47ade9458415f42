#include "asup/collective/cost/cost.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <queue>

#include "asup/base/error.h"
#include "asup/collective/plan/build.h"
#include "asup/collective/verify/messages.h"

namespace asup::collective {
namespace {

constexpr std::size_t kBuffered = 1 << 20;   // bytes of a message that links take unreceived
constexpr std::size_t kCached = 256 << 10;   // a call of so many bytes stays in the caches
constexpr std::size_t kUncached = 4 << 20;   // and none of one of so many
constexpr std::size_t kMostSteps = 200'000;  // of all ranks, to be run one by one

using Femtoseconds = std::int64_t;  // a byte

Picoseconds picoseconds(double seconds) { return std::llround(seconds * 1e12); }

Picoseconds times(Femtoseconds rate, std::size_t bytes) {
  return static_cast<Picoseconds>(static_cast<__int128>(rate) * static_cast<__int128>(bytes) /
                                  1000);
}

Femtoseconds per_byte(double seconds) { return std::llround(seconds * 1e15); }

// Between the two rates where a call of `bytes` is between the two sizes.
Femtoseconds per_byte(const ByteRate& rate, std::size_t bytes) {
  const Femtoseconds cached = per_byte(rate.cached);
  const Femtoseconds memory = std::max(cached, per_byte(rate.memory));
  const auto over = static_cast<std::int64_t>(std::clamp(bytes, kCached, kUncached) - kCached);
  const auto span = static_cast<std::int64_t>(kUncached - kCached);
  return cached + static_cast<Femtoseconds>(static_cast<__int128>(memory - cached) * over / span);
}

struct LinkCost {
  Picoseconds latency, message;
  Femtoseconds send, recv, reduce, wire;  // reduce: received and added up in one

  LinkCost(const LinkRates& rates, Femtoseconds copy, Femtoseconds reduce_rate)
      : latency(picoseconds(rates.latency)),
        message(picoseconds(rates.message)),
        send(per_byte(rates.send_byte)),
        recv(per_byte(rates.recv_byte)),
        // Adding up takes the place of the copy out of the link.
        reduce(std::max<Femtoseconds>(recv - copy, 0) + reduce_rate),
        wire(per_byte(rates.wire_byte)) {}
};

struct Host {
  struct Core {
    Picoseconds free = 0;
    int rank = -1;  // that it worked for last
  };
  std::vector<Core> cores;      // empty: each rank has one of its own
  Picoseconds out = 0, in = 0;  // when its network is free again
};

class Simulation {
 public:
  Simulation(const Spec& spec, const std::vector<Plan>& plans, const Rates& rates,
             std::size_t element, std::span<const int> hosts)
      : plans_(plans),
        element_(element),
        copy_(per_byte(rates.copy, spec.count * element)),
        reduce_(per_byte(rates.reduce, spec.count * element)),
        near_(rates.near, copy_, reduce_),
        far_(rates.far, copy_, reduce_),
        change_(picoseconds(rates.change)),
        call_(picoseconds(rates.call)),
        free_(plans.size(), 0) {
    place(hosts, static_cast<std::size_t>(rates.cores));
    const int lanes = proof::lanes_of(plans);
    for (int lane = 0; lane < lanes; ++lane) add_lane(spec, lane);
  }

  Picoseconds run() {
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane)
      for (std::size_t rank = 0; rank < plans_.size(); ++rank)
        push(0, Event::Kind::round, static_cast<int>(rank), static_cast<int>(lane), 0);
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      handle(event);
    }
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane)
      for (std::size_t rank = 0; rank < plans_.size(); ++rank)
        check(lanes_[lane].ranks[rank].round >= rounds(rank, lane).size(),
              "the plans cannot be priced: rank {} never ends; verify() says why", rank);
    return end_ + call_;
  }

 private:
  struct Event {
    enum class Kind : std::uint8_t { round, work, send, recv };
    Picoseconds time;
    std::uint64_t number;  // the order of events of one time
    Kind kind;
    int rank, lane;
    std::uint32_t message;  // of a send or recv

    bool operator>(const Event& other) const {
      return time != other.time ? time > other.time : number > other.number;
    }
  };

  struct Transfer {
    bool posted = false, sent = false;  // the receiver, the sender has come to it
    Picoseconds first = 0, last = 0;    // when its first and last byte are there
  };

  struct RankOfLane {
    std::size_t round = 0;
    int open = 0;          // steps of the round under way
    std::size_t next = 0;  // of its messages, the first of the next round
    Picoseconds end = 0;   // of the round, so far
  };

  struct LaneOfAll {
    proof::Messages messages;
    std::vector<Transfer> transfers;  // by message
    std::vector<RankOfLane> ranks;
  };

  void place(std::span<const int> hosts, std::size_t cores) {
    std::map<int, int> numbers;
    std::vector<std::size_t> members;
    for (std::size_t rank = 0; rank < plans_.size(); ++rank) {
      const int host = hosts.empty() ? 0 : hosts[rank];
      const auto [found, is_new] = numbers.emplace(host, static_cast<int>(members.size()));
      if (is_new) members.push_back(0);
      ++members[static_cast<std::size_t>(found->second)];
      host_of_.push_back(found->second);
    }
    hosts_.resize(members.size());
    for (std::size_t host = 0; host < hosts_.size(); ++host)
      if (members[host] > cores) hosts_[host].cores.resize(std::max<std::size_t>(cores, 1));
  }

  void add_lane(const Spec& spec, int lane) {
    LaneOfAll& all = lanes_.emplace_back();
    try {
      all.messages = proof::pair_messages(spec, plans_, lane);
    } catch (const proof::Refuted& refuted) {
      throw Error("the plans cannot be priced: " + describe(refuted.flaw));
    }
    all.transfers.resize(all.messages.all.size());
    all.ranks.resize(plans_.size());
  }

  const Lane& rounds(std::size_t rank, std::size_t lane) const {
    static const Lane none;
    const auto& lanes = plans_[rank].lanes;
    return lane < lanes.size() ? lanes[lane] : none;
  }
  const Round& current(const Event& event) {
    return rounds(static_cast<std::size_t>(event.rank),
                  static_cast<std::size_t>(event.lane))[state(event.rank, event.lane).round];
  }
  RankOfLane& state(int rank, int lane) {
    return lanes_[static_cast<std::size_t>(lane)].ranks[static_cast<std::size_t>(rank)];
  }
  Transfer& transfer(const Event& event) {
    return lanes_[static_cast<std::size_t>(event.lane)].transfers[event.message];
  }
  const proof::Message& message(const Event& event) {
    return lanes_[static_cast<std::size_t>(event.lane)].messages.all[event.message];
  }
  Host& host(int rank) {
    return hosts_[static_cast<std::size_t>(host_of_[static_cast<std::size_t>(rank)])];
  }
  const LinkCost& link(int a, int b) const {
    return host_of_[static_cast<std::size_t>(a)] == host_of_[static_cast<std::size_t>(b)] ? near_
                                                                                          : far_;
  }

  void push(Picoseconds time, Event::Kind kind, int rank, int lane, std::uint32_t message) {
    events_.push({time, ++events_made_, kind, rank, lane, message});
  }

  void handle(const Event& event) {
    switch (event.kind) {
      case Event::Kind::round:
        return begin_round(event);
      case Event::Kind::work:
        return work(event);
      case Event::Kind::send:
        return send(event);
      case Event::Kind::recv:
        return receive(event);
    }
  }

  // When `rank` begins something of that duration for which it was ready at `ready`.
  Picoseconds occupy(int rank, Picoseconds ready, Picoseconds duration) {
    Picoseconds& free = free_[static_cast<std::size_t>(rank)];
    Picoseconds begin = std::max(ready, free);
    auto& cores = host(rank).cores;
    if (!cores.empty()) {
      // Its own core if that is free in time, else the first that is.
      auto core = std::find_if(cores.begin(), cores.end(), [&](const Host::Core& c) {
        return c.rank == rank && c.free <= begin;
      });
      if (core == cores.end())
        core = std::min_element(cores.begin(), cores.end(),
                                [](const auto& a, const auto& b) { return a.free < b.free; });
      begin = std::max(begin, core->free) + (core->rank == rank || core->rank < 0 ? 0 : change_);
      *core = {begin + duration, rank};
    }
    free = begin + duration;
    return begin;
  }

  void begin_round(const Event& event) {
    const Lane& lane =
        rounds(static_cast<std::size_t>(event.rank), static_cast<std::size_t>(event.lane));
    RankOfLane& at = state(event.rank, event.lane);
    at.end = event.time;
    while (at.round < lane.size() && lane[at.round].empty()) ++at.round;
    if (at.round == lane.size()) {
      end_ = std::max(end_, event.time);
      return;
    }
    const Round& round = lane[at.round];
    at.open = static_cast<int>(round.size());
    if (!round.front().is_message()) {
      at.open = 1;
      return push(event.time, Event::Kind::work, event.rank, event.lane, 0);
    }
    const auto& messages = lanes_[static_cast<std::size_t>(event.lane)]
                               .messages.by_rank[static_cast<std::size_t>(event.rank)];
    for (const Step& step : round) {
      const std::uint32_t number = messages[at.next++];
      if (step.op == Step::Op::send) {
        push(event.time, Event::Kind::send, event.rank, event.lane, number);
        continue;
      }
      Transfer& coming = lanes_[static_cast<std::size_t>(event.lane)].transfers[number];
      coming.posted = true;
      if (coming.sent)
        push(std::max(event.time, coming.first), Event::Kind::recv, event.rank, event.lane, number);
    }
  }

  void work(const Event& event) {
    Picoseconds duration = 0;
    const Round& round = current(event);
    for (const Step& step : round) {
      // What the round's first step wrote is still in the cache: it is only written.
      const bool cached = &step != &round.front() && step.src == round.front().dst;
      duration += cached ? duration_of(step) / 2 : duration_of(step);
    }
    close(event.rank, event.lane, occupy(event.rank, event.time, duration) + duration);
  }

  // A copy moves two bytes through memory for each of its own, adding n up n + 1.
  Picoseconds duration_of(const Step& step) const {
    const std::size_t bytes = step.dst.size() * element_;
    if (!step.sums_all()) return times(copy_, bytes);
    return times(reduce_, bytes * (plans_.size() + 1) / 3);
  }

  void send(const Event& event) {
    const proof::Site& to = message(event).recv;
    const std::size_t bytes = step_at(plans_, message(event).send).src.size() * element_;
    const LinkCost& cost = link(event.rank, to.rank);
    const Picoseconds duration = cost.message + times(cost.send, bytes);
    const Picoseconds begin = occupy(event.rank, event.time, duration), end = begin + duration;
    Transfer& going = transfer(event);
    going.sent = true;
    going.first = begin + cost.message + cost.latency;
    going.last = end + cost.latency;
    if (cost.wire > 0) pass_network(event.rank, to.rank, times(cost.wire, bytes), going);
    if (bytes <= kBuffered) close(event.rank, event.lane, end);
    if (going.posted) push(going.first, Event::Kind::recv, to.rank, event.lane, event.message);
  }

  // Out of one host's network and into the other's, each of which takes `duration`.
  void pass_network(int from, int to, Picoseconds duration, Transfer& going) {
    Picoseconds& out = host(from).out;
    Picoseconds& in = host(to).in;
    const Picoseconds late = std::max<Picoseconds>(out - going.first, 0);  // it waits to leave
    going.first += late;
    out = going.first + duration;
    going.first = std::max(going.first, in);
    in = going.first + duration;
    going.last = std::max(going.last, in);
  }

  void receive(const Event& event) {
    const Step& step = step_at(plans_, message(event).recv);
    const std::size_t bytes = step.dst.size() * element_;
    const int from = message(event).send.rank;
    const LinkCost& cost = link(event.rank, from);
    const bool reduces = step.op == Step::Op::recv_reduce;
    const Picoseconds duration = cost.message + times(reduces ? cost.reduce : cost.recv, bytes);
    const Picoseconds begin = occupy(event.rank, event.time, duration);
    const Picoseconds end = std::max(begin + duration, transfer(event).last + cost.message);
    close(event.rank, event.lane, end);
    if (bytes > kBuffered) close(from, event.lane, end);
  }

  // One step of the round under way has ended.
  void close(int rank, int lane, Picoseconds time) {
    RankOfLane& at = state(rank, lane);
    at.end = std::max(at.end, time);
    if (--at.open > 0) return;
    ++at.round;
    push(at.end, Event::Kind::round, rank, lane, 0);
  }

  const std::vector<Plan>& plans_;
  const std::size_t element_;
  const Femtoseconds copy_, reduce_;
  const LinkCost near_, far_;
  const Picoseconds change_, call_;

  std::vector<int> host_of_;  // by rank
  std::vector<Host> hosts_;
  std::vector<Picoseconds> free_;  // by rank: when its thread is
  std::vector<LaneOfAll> lanes_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t events_made_ = 0;
  Picoseconds end_ = 0;
};

std::size_t steps_of(const Plan& plan) {
  std::size_t steps = 0;
  for (const Lane& lane : plan.lanes)
    for (const Round& round : lane) steps += round.size();
  return steps;
}

Picoseconds price_whole(const Algorithm& algorithm, const Spec& spec, const Rates& rates,
                        std::size_t element, std::span<const int> hosts) {
  std::vector<Plan> plans;
  for (int rank = 0; rank < spec.ranks; ++rank) plans.push_back(algorithm.plan(rank, spec));
  return price(spec, plans, rates, element, hosts);
}

// Where fewer ranks would be: as many on a host as before, or half of them where that would be all.
struct Fewer {
  std::vector<int> hosts;
  std::size_t together, before;  // ranks on a host
};

Fewer fewer_hosts(std::span<const int> hosts, int all, int ranks) {
  const bool several =
      std::any_of(hosts.begin(), hosts.end(), [&](int host) { return host != hosts.front(); });
  if (!several) return {{}, static_cast<std::size_t>(ranks), static_cast<std::size_t>(all)};
  const auto before =
      static_cast<std::size_t>(std::count(hosts.begin(), hosts.end(), hosts.front()));
  const std::size_t together = std::min(before, static_cast<std::size_t>(ranks) / 2);
  std::vector<int> fewer;
  for (int rank = 0; rank < ranks; ++rank) fewer.push_back(rank / static_cast<int>(together));
  return {fewer, together, before};
}

Picoseconds price_by_few(const Algorithm& algorithm, const Spec& spec, const Rates& rates,
                         std::size_t element, std::span<const int> hosts) {
  const auto among = [&](int ranks) {
    Spec few = spec;
    few.ranks = ranks;
    few.counts.clear();
    few.root = std::min(spec.root, ranks - 1);
    const Fewer fewer = fewer_hosts(hosts, spec.ranks, ranks);
    few.hosts = fewer.hosts;
    Rates share = rates;  // as many ranks to a core as before
    const auto cores = static_cast<std::size_t>(rates.cores) * fewer.together / fewer.before;
    share.cores = static_cast<double>(std::max<std::size_t>(cores, 1));
    return price_whole(algorithm, few, share, element, fewer.hosts);
  };
  const std::array<Picoseconds, 3> at{among(8), among(16), among(32)};
  const Picoseconds lower = std::max<Picoseconds>(at[1] - at[0], 0);  // b + 8 c
  const Picoseconds upper = std::max<Picoseconds>(at[2] - at[1], 0);  // b + 16 c
  const Picoseconds each = std::clamp<Picoseconds>((upper - lower) / 8, 0, upper / 16);
  const Picoseconds doubling = upper - 16 * each;
  return at[2] + doubling * (log2_ceil(spec.ranks) - 5) + each * (spec.ranks - 32);
}

}  // namespace

Picoseconds price(const Spec& spec, const std::vector<Plan>& plans, const Rates& rates,
                  std::size_t element, std::span<const int> hosts) {
  check(hosts.empty() || hosts.size() == plans.size(), "{} hosts for {} ranks", hosts.size(),
        plans.size());
  return Simulation(spec, plans, rates, element, hosts).run();
}

Picoseconds price(const Algorithm& algorithm, const Spec& spec, const Rates& rates,
                  std::size_t element, std::span<const int> hosts) {
  const std::size_t steps =
      steps_of(algorithm.plan(spec.root, spec)) * static_cast<std::size_t>(spec.ranks);
  if (spec.ranks > 32 && steps > kMostSteps)
    return price_by_few(algorithm, spec, rates, element, hosts);
  return price_whole(algorithm, spec, rates, element, hosts);
}

}  // namespace asup::collective
