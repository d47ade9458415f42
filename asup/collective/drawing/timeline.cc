#include "asup/collective/drawing/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "asup/base/error.h"
#include "asup/collective/verify/schedule.h"

namespace asup::collective::drawing {
namespace {

class Recorder : public proof::Effects {
 public:
  Recorder(const std::vector<Plan>& plans, int lane, std::vector<Event>& events)
      : plans_(plans), lane_(lane), events_(events), begin_(plans.size(), 0), end_(begin_) {}

  void pass(const proof::Message& message) override {
    const int from = message.send.rank, to = message.recv.rank;
    const int tick = std::max(begin_of(from), begin_of(to)) + 1;
    events_.push_back(
        {lane_, tick, from, to, step_at(plans_, message.send), step_at(plans_, message.recv)});
    extend(from, tick);
    extend(to, tick);
  }
  void work(const proof::Site& site, const Round& round) override {
    const int tick = begin_of(site.rank) + 1;
    for (const Step& step : round) events_.push_back({lane_, tick, site.rank, -1, step, {}});
    extend(site.rank, tick);
  }
  void end_round(int rank) override {
    begin_[static_cast<std::size_t>(rank)] = end_[static_cast<std::size_t>(rank)];
  }

 private:
  int begin_of(int rank) const { return begin_[static_cast<std::size_t>(rank)]; }
  void extend(int rank, int tick) {
    int& end = end_[static_cast<std::size_t>(rank)];
    end = std::max(end, tick);
  }

  const std::vector<Plan>& plans_;
  const int lane_;
  std::vector<Event>& events_;
  std::vector<int> begin_, end_;  // of each rank's round under way, in ticks
};

std::string name_of(const AreaRange& range, const Spec& spec) {
  if (spec.aliased() && range.area != Area::scratch && range.area != Area::coded)
    return fmt::format("[{}, {})", range.begin, range.end);
  return collective::describe(range);
}

}  // namespace

std::size_t Timeline::messages() const {
  return static_cast<std::size_t>(
      std::count_if(events.begin(), events.end(), [](const Event& e) { return e.is_message(); }));
}

Timeline timeline_of(const Spec& spec, const std::vector<Plan>& plans) {
  Timeline timeline;
  timeline.lanes = proof::lanes_of(plans);
  try {
    for (int lane = 0; lane < timeline.lanes; ++lane) {
      Recorder recorder(plans, lane, timeline.events);
      proof::run_lane(spec, plans, lane, proof::pair_messages(spec, plans, lane), recorder);
    }
  } catch (const proof::Refuted& refuted) {
    throw Error(collective::describe(refuted.flaw));
  }
  std::stable_sort(timeline.events.begin(), timeline.events.end(),
                   [](const Event& a, const Event& b) {
                     return std::tuple(a.lane, a.tick, a.from) < std::tuple(b.lane, b.tick, b.from);
                   });
  for (const Event& event : timeline.events) timeline.ticks = std::max(timeline.ticks, event.tick);
  return timeline;
}

std::string describe(const Event& event, const Spec& spec) {
  if (!event.is_message())
    return fmt::format("{}: {}", event.from, collective::describe(event.step));
  const std::string way = fmt::format("{} -> {}: ", event.from, event.to);
  if (event.is_signal()) return way + "signal";
  const Step& received = event.received;
  const std::string src = name_of(event.step.src, spec), dst = name_of(received.dst, spec);
  const std::string to = dst == src ? "" : " to " + dst;
  const char* complete = received.finish ? ", complete" : "";
  if (received.op != Step::Op::recv_reduce)
    return fmt::format("{}{}, copied{}{}", way, src, to, complete);
  const std::string own = name_of(received.src, spec);
  const std::string as = own == dst ? "" : " as " + dst;
  return fmt::format("{}{}, added{}{}{}", way, src, own == src ? "" : " to " + own, as, complete);
}

}  // namespace asup::collective::drawing
