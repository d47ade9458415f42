#include "asup/collective/verify/happens_before.h"

#include <algorithm>
#include <bit>

namespace asup::collective::proof {

HappensBefore::HappensBefore(const Spec& spec, const std::vector<Plan>& plans)
    : spec_(spec),
      plans_(plans),
      ranks_(spec.ranks),
      heard_(static_cast<std::size_t>(spec.ranks) * spec.ranks, false) {
  for (int rank = 0; rank < ranks_; ++rank) heard_[index(rank, rank)] = true;
}

void HappensBefore::begin_lane() {
  latest_ = std::make_shared<const Clock>(ranks_, 0);
  now_.assign(ranks_, 1);
  known_.assign(ranks_, latest_);
  joined_.assign(ranks_, latest_);
  arriving_.assign(ranks_, *latest_);
  met_.assign(heard_.size(), false);
  reads_.clear();
  memory_.clear();
  memory_.reserve(ranks_);
  for (int rank = 0; rank < ranks_; ++rank) {
    const History start = {{rank, 0, -1, true}};  // the caller filled it
    const std::size_t input = spec_.aliased(rank) ? 0 : spec_.elements(Area::input, rank);
    memory_.push_back({IntervalMap<History>(input, start),
                       IntervalMap<History>(spec_.elements(Area::output, rank), start),
                       IntervalMap<History>(plans_[rank].stage, start)});
  }
}

void HappensBefore::access(const Site& site, const Access& access, int sender) {
  if (access.range.area == Area::scratch || access.range.area == Area::coded)
    return;  // which no other rank reaches
  const Event event = {site.rank, static_cast<Time>(site.round + 1), site.step, access.write};
  Owned& owned = memory_[access.owner];
  owned.area(access.range.area)
      .change(access.range.begin, access.range.end,
              [&](std::size_t begin, std::size_t end, History& history) {
                note(site, {access.owner, {access.range.area, begin, end}, access.write}, event,
                     sender, history);
              });
  check_met(site, access);
}

void HappensBefore::check_met(const Site& site, const Access& access) const {
  if (access.owner == site.rank || met_[index(site.rank, access.owner)]) return;
  refute(site, access.range, "{} {} of rank {} without a message from there to say where it is",
         access.write ? "writes" : "reads", describe(access.range), access.owner);
}

template <typename Known>
const HappensBefore::Event* HappensBefore::unknown_read(const History& history, Known known) const {
  const Event* earliest = nullptr;
  std::uint32_t at = history.last_read;
  for (std::uint32_t i = 0; i < history.reads; ++i, at = reads_[at].before) {
    if (!known(reads_[at].event)) earliest = &reads_[at].event;
  }
  return earliest;
}

template <typename Known>
void HappensBefore::forget_reads(History& history, Known known) {
  std::vector<Event> kept;  // the last first
  std::uint32_t at = history.last_read;
  for (std::uint32_t i = 0; i < history.reads; ++i, at = reads_[at].before) {
    if (!known(reads_[at].event)) kept.push_back(reads_[at].event);
  }
  if (kept.size() == history.reads) return;
  history.reads = 0;
  for (auto event = kept.rbegin(); event != kept.rend(); ++event) add_read(history, *event);
}

void HappensBefore::note(const Site& site, const Access& access, const Event& event, int sender,
                         History& history) {
  auto known = [&](const Event& past) {
    return knows(site.rank, past) || (sender >= 0 && knows(sender, past));
  };
  auto require_known = [&](const Event& past) {
    if (known(past)) return;
    refute(site, access.range, "{} {} of rank {}, but nothing makes it wait for {}",
           access.write ? "writes" : "reads", describe(access.range), access.owner,
           past.time == 0 ? fmt::format("rank {}'s start", past.rank)
                          : fmt::format("rank {}'s {} in round {}", past.rank,
                                        past.write ? "write" : "read", past.time - 1));
  };
  require_known(history.write);
  if (access.write) {
    if (const Event* read = unknown_read(history, known)) require_known(*read);
    history = {event};
  } else {
    // Whoever waits for this read waits for those it knows of. To look for them only when the list
    // has doubled keeps it short, and the looking too where many ranks read and know of nobody.
    if (std::has_single_bit(history.reads)) forget_reads(history, known);
    add_read(history, event);
  }
}

void HappensBefore::pass(int from, int to) {
  Clock& arriving = arriving_[to];
  if (joined_[to] != known_[from]) {
    joined_[to] = known_[from];
    const Clock& theirs = *joined_[to];
    for (int r = 0; r < ranks_; ++r) arriving[r] = std::max(arriving[r], theirs[r]);
  }
  arriving[from] = std::max(arriving[from], now_[from]);
  arriving[to] = now_[to];  // as its peers of this round know it, so that all know the same
  met_[index(to, from)] = true;
}

void HappensBefore::end_round(int rank) {
  ++now_[rank];
  const Clock& arriving = arriving_[rank];
  if (arriving == *known_[rank]) return;
  if (arriving != *latest_) latest_ = std::make_shared<const Clock>(arriving);
  known_[rank] = latest_;
}

void HappensBefore::end_lane(int lane) {
  for (int rank = 0; rank < ranks_; ++rank) {
    for (int other = 0; other < ranks_; ++other) {
      if ((*known_[rank])[other] > 0) heard_[index(rank, other)] = true;
    }
    check_end(lane, rank, Area::input, memory_[rank].input);
    check_end(lane, rank, Area::output, memory_[rank].output);
    check_end(lane, rank, Area::stage, memory_[rank].stage);
  }
}

void HappensBefore::check_end(int lane, int owner, Area area,
                              const IntervalMap<History>& map) const {
  map.visit(0, map.size(), [&](std::size_t begin, std::size_t end, const History& history) {
    auto require_known = [&](const Event& event) {
      if (knows(owner, event)) return;
      const AreaRange range = {area, begin, end};
      refute({event.rank, lane, static_cast<int>(event.time) - 1, event.step}, range,
             "{} {} of rank {}, which may have ended by then", event.write ? "writes" : "reads",
             describe(range), owner);
    };
    require_known(history.write);
    const auto known = [&](const Event& event) { return knows(owner, event); };
    if (const Event* read = unknown_read(history, known)) require_known(*read);
  });
}

}  // namespace asup::collective::proof
