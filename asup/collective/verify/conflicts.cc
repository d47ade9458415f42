#include "asup/collective/verify/conflicts.h"

#include <algorithm>
#include <tuple>

#include "asup/collective/verify/access.h"
#include "asup/collective/verify/site.h"

namespace asup::collective::proof {
namespace {

// An access and who makes it.
struct Touch {
  Access access;
  Site site;

  auto key() const {
    const AreaRange& range = access.range;
    return std::tuple(access.owner, range.area, range.begin, range.end, site.lane, site.step);
  }
};

void sort(std::vector<Touch>& touches) {
  std::sort(touches.begin(), touches.end(),
            [](const Touch& a, const Touch& b) { return a.key() < b.key(); });
}

const char* verb(const Touch& touch) { return touch.access.write ? "writes" : "reads"; }

bool same_memory(const Touch& a, const Touch& b) {
  return a.access.owner == b.access.owner && a.access.range.area == b.access.range.area;
}

[[noreturn]] void refute_round(const Touch& a, const Touch& b) {
  const auto& [first, second] = a.site.step <= b.site.step ? std::tie(a, b) : std::tie(b, a);
  refute(second.site, second.access.range, "{} {} of rank {} while step {} of the same round {} {}",
         verb(second), describe(second.access.range), second.access.owner, first.site.step,
         verb(first), describe(first.access.range));
}

// needs: sorted
void check_round(const std::vector<Touch>& touches, bool messages) {
  std::vector<std::size_t> next_write(touches.size() + 1, touches.size());  // from each place on
  for (std::size_t i = touches.size(); i-- > 0;) {
    next_write[i] = touches[i].access.write ? i : next_write[i + 1];
  }
  for (std::size_t i = 0; i < touches.size(); ++i) {
    const Touch& a = touches[i];
    const auto after = [&](std::size_t j) { return a.access.write ? j + 1 : next_write[j + 1]; };
    for (std::size_t j = after(i); j < touches.size(); j = after(j)) {
      const Touch& b = touches[j];
      if (!same_memory(a, b) || b.access.range.begin >= a.access.range.end) break;
      const bool ordered = a.site.step == b.site.step || !messages;
      if (!ordered || a.access.range.begin != b.access.range.begin) refute_round(a, b);
    }
  }
}

void collect(const Spec& spec, const Site& site, const Step& step, std::vector<Touch>& touches) {
  for_each_access(spec, site.rank, step, [&](const Access& access) {
    touches.push_back({access, site});
  });
}

// For each lane, the access seen so far that reaches furthest.
class Reach {
 public:
  explicit Reach(int lanes) : furthest_(lanes, nullptr) {}

  void add(const Touch& touch) {
    const Touch*& furthest = furthest_[touch.site.lane];
    if (!furthest || furthest->access.range.end < touch.access.range.end) furthest = &touch;
  }

  // One of another lane that overlaps `touch`. needs: `touch` begins after all that were added
  const Touch* other(const Touch& touch) const {
    for (const Touch* seen : furthest_) {
      if (seen && seen->site.lane != touch.site.lane &&
          seen->access.range.end > touch.access.range.begin) {
        return seen;
      }
    }
    return nullptr;
  }

 private:
  std::vector<const Touch*> furthest_;  // by lane
};

[[noreturn]] void refute_lanes(const Touch& a, const Touch& b) {
  const auto& [first, second] = a.site.lane < b.site.lane ? std::tie(a, b) : std::tie(b, a);
  refute(second.site, second.access.range,
         "{} {} of rank {} in lane {}, while rank {} {} {} in lane {}", verb(second),
         describe(second.access.range), second.access.owner, second.site.lane, first.site.rank,
         verb(first), describe(first.access.range), first.site.lane);
}

void check_between_lanes(std::vector<Touch>& touches, int lanes) {
  sort(touches);
  auto begin = touches.begin();
  while (begin != touches.end()) {
    Reach reads(lanes), writes(lanes);
    auto end = begin;
    for (; end != touches.end() && same_memory(*begin, *end); ++end) {
      if (const Touch* other = writes.other(*end)) refute_lanes(*other, *end);
      if (end->access.write) {
        if (const Touch* other = reads.other(*end)) refute_lanes(*other, *end);
      }
      (end->access.write ? writes : reads).add(*end);
    }
    begin = end;
  }
}

}  // namespace

void check_rounds(const Spec& spec, const std::vector<Plan>& plans) {
  std::vector<Touch> touches;
  for (int rank = 0; rank < spec.ranks; ++rank) {
    for (int lane = 0; lane < static_cast<int>(plans[rank].lanes.size()); ++lane) {
      for_each_round(plans[rank], rank, lane, [&](Site site, const Round& round) {
        touches.clear();
        for (const Step& step : round) {
          collect(spec, site, step, touches);
          ++site.step;
        }
        if (touches.size() < 2) return;
        sort(touches);
        check_round(touches, round.front().is_message());
      });
    }
  }
}

void check_lanes(const Spec& spec, const std::vector<Plan>& plans) {
  const int lanes = lanes_of(plans);
  if (lanes < 2) return;
  const bool peers = any_reaches_peer(plans);
  std::vector<Touch> touches;
  for (int rank = 0; rank < spec.ranks; ++rank) {
    for (int lane = 0; lane < lanes; ++lane) {
      for_each_step(plans[rank], rank, lane, [&](const Site& site, const Step& step) {
        collect(spec, site, step, touches);
      });
    }
    if (peers) continue;  // others may still come to this rank's memory
    check_between_lanes(touches, lanes);
    touches.clear();
  }
  check_between_lanes(touches, lanes);
}

}  // namespace asup::collective::proof
