#include "asup/base/timeline.h"

#include <algorithm>
#include <array>

namespace asup {
namespace {

constexpr std::array<std::string_view, kActivities> kNames{
    "step",       "data",     "load",      "forward", "backward",   "weight gradient",
    "encode",     "exchange", "send",      "receive", "wait",       "optimizer",
    "push",       "pull",     "lease",     "update",  "sync point", "test",
    "checkpoint", "idle",     "operation", "program"};

}  // namespace

std::string_view name_of(Activity activity) {
  return kNames.at(static_cast<std::size_t>(activity));
}

TimelineLabels within(const TimelineLabels& outer, TimelineLabels labels) {
  if (labels.step < 0) labels.step = outer.step;
  if (labels.stage < 0) labels.stage = outer.stage;
  if (labels.micro_batch < 0) labels.micro_batch = outer.micro_batch;
  if (labels.bucket < 0) labels.bucket = outer.bucket;
  return labels;
}

TimelineEvent event_of(const TimelineLabels& labels) {
  TimelineEvent event;
  event.detail = labels.detail;
  event.step = labels.step;
  event.bytes = labels.bytes;
  event.stage = labels.stage;
  event.micro_batch = labels.micro_batch;
  event.bucket = labels.bucket;
  return event;
}

std::shared_ptr<TimelineTrack> Timeline::track(std::string_view name) {
  const auto claimed = [](const std::shared_ptr<TimelineTrack>& track) {
    return std::shared_ptr<TimelineTrack>(track.get(),
                                          [track](TimelineTrack* used) { used->give_back(); });
  };
  const std::lock_guard lock(state_->mutex);
  for (const auto& track : state_->tracks)
    if (track->name() == name && track->claim()) return claimed(track);
  const auto track = std::make_shared<TimelineTrack>(std::string(name), state_->capacity);
  track->claim();
  state_->tracks.push_back(track);
  return claimed(track);
}

std::vector<Timeline::TakenTrack> Timeline::take() {
  const std::lock_guard lock(state_->mutex);
  std::vector<TakenTrack> all;
  for (const auto& track : state_->tracks) all.push_back({track->name(), track->take()});
  return all;
}

void record_span(TimelineTrack& track, Activity activity, Clock::time_point since,
                 const TimelineLabels& labels, const char* name) {
  TimelineEvent span = event_of(labels);
  span.activity = activity;
  span.name = name;
  span.begin = nanoseconds_of(since);
  span.end = timeline_now();
  track.record(span);
}

constinit thread_local TimelineThread* TimelineThread::current_ = nullptr;

TimelineThread::TimelineThread(Timeline* timeline, std::string_view track)
    : timeline_(timeline), track_(timeline ? timeline->track(track) : nullptr), before_(current_) {
  current_ = timeline ? this : nullptr;
}

// Whoever owns it may end in another thread.
TimelineThread::~TimelineThread() {
  if (current_ == (timeline_ ? this : nullptr)) current_ = before_;
}

TimelineTrack& TimelineThread::operations() {
  if (!operations_) operations_ = timeline_->track(track_->name() + ": torch");
  return *operations_;
}

void TimelineScope::open(Activity activity, const TimelineLabels& labels, const char* name) {
  const TimelineLabels outer = thread_->labels_;
  const TimelineLabels all = within(outer, labels);
  new (&open_) decltype(open_){all.step >= 0 && !thread_->timeline().steps().has(all.step), outer,
                               event_of(all)};
  thread_->labels_ = all;
  if (open_.muted) {
    TimelineThread::current_ = nullptr;
    return;
  }
  open_.event.activity = activity;
  open_.event.name = name;
  open_.event.begin = timeline_now();
}

void TimelineScope::close() {
  thread_->labels_ = open_.outer;
  if (open_.muted) {
    TimelineThread::current_ = thread_;
    return;
  }
  open_.event.end = timeline_now();
  thread_->track().record(open_.event);
}

void TimelineScope::set_step(std::int64_t step) {
  if (!thread_) return;
  thread_->labels_.step = step;
  open_.event.step = step;
}

void timeline_counter(const char* name, std::int64_t value) {
  TimelineThread* const thread = TimelineThread::current();
  if (!thread) return;
  TimelineEvent event = event_of(thread->labels());
  event.kind = TimelineEvent::Kind::counter;
  event.name = name;
  event.begin = timeline_now();
  event.end = value;
  thread->track().record(event);
}

}  // namespace asup
