#include "asup/collective/execute/timeline_sink.h"

#include <fmt/format.h>

#include <map>
#include <utility>

namespace asup::collective {
namespace {

Activity activity_of(Collective collective) {
  if (collective == Collective::send) return Activity::send;
  if (collective == Collective::recv) return Activity::recv;
  return Activity::exchange;
}

std::string name_of_track(const Spec& spec) {
  if (spec.collective == Collective::send) return fmt::format("send to {}", spec.root);
  if (spec.collective == Collective::recv) return fmt::format("receive from {}", spec.root);
  return "exchange";
}

// Under the mesh's lock.
class TimelineSink {
 public:
  explicit TimelineSink(const Timeline& timeline) : timeline_(timeline) {}

  void operator()(const TraceEvent& event) {
    if (event.kind == TraceEvent::Kind::begin && !is_point_to_point(event.spec->collective))
      records_ = event.labels != nullptr;
    if (event.kind == TraceEvent::Kind::encode && records_)
      record_span(track_of(*event.spec), Activity::encode, event.since);
    if (event.kind == TraceEvent::Kind::end && event.labels)
      record_span(track_of(*event.spec), activity_of(event.spec->collective), event.since,
                  *event.labels, name_of(event.spec->collective).data());
  }

 private:
  TimelineTrack& track_of(const Spec& spec) {
    const bool pairs = is_point_to_point(spec.collective);
    auto& track =
        tracks_[{pairs ? spec.collective : Collective::all_reduce, pairs ? spec.root : 0}];
    if (!track) track = timeline_.track(name_of_track(spec));
    return *track;
  }

  Timeline timeline_;
  std::map<std::pair<Collective, int>, std::shared_ptr<TimelineTrack>> tracks_;
  bool records_ = false;  // the collective under way
};

}  // namespace

TraceSink timeline_sink(const Timeline& timeline) {
  return [sink = std::make_shared<TimelineSink>(timeline)](const TraceEvent& event) {
    (*sink)(event);
  };
}

}  // namespace asup::collective
