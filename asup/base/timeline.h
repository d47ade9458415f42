// The timeline of one rank: what its threads do, and when (docs/timeline.md).
//
// Whoever runs a job owns the Timeline; nothing of it is global, so that two jobs fit in one
// process. A thread that takes part holds a TimelineThread for as long as it does. Whatever it
// calls then may record:
//
//   TimelineScope scope(Activity::forward, {.stage = 1, .micro_batch = 3});
//
// which is one branch in a thread that takes no part. Recording waits for nobody and allocates
// nothing; making tracks and taking events is safe from any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "asup/base/clock.h"
#include "asup/base/timeline_event.h"
#include "asup/base/timeline_track.h"

namespace asup {

inline std::int64_t nanoseconds_of(Clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}
inline std::int64_t timeline_now() { return nanoseconds_of(Clock::now()); }

// Steps, counted from 1, both inclusive.
struct StepRange {
  std::int64_t first = 1;
  std::int64_t last = std::numeric_limits<std::int64_t>::max();

  bool has(std::int64_t step) const { return step >= first && step <= last; }
  bool operator==(const StepRange&) const = default;
};

// Copies share it.
class Timeline {
 public:
  static constexpr std::size_t kUsualCapacity = std::size_t{1} << 16;  // events of a track

  explicit Timeline(StepRange steps = {}, std::size_t capacity = kUsualCapacity)
      : state_(std::make_shared<State>(steps, capacity)) {}

  const StepRange& steps() const { return state_->steps; }  // events of others are not recorded

  // A track of this name that nobody else holds: one that was given back, or a new one.
  std::shared_ptr<TimelineTrack> track(std::string_view name);

  // What was recorded since the last time, by tracks in the order in which they were made.
  struct TakenTrack {
    std::string name;
    TimelineTrack::Taken taken;
  };
  std::vector<TakenTrack> take();

 private:
  struct State {
    State(StepRange steps_of, std::size_t events) : steps(steps_of), capacity(events) {}

    const StepRange steps;
    const std::size_t capacity;
    std::mutex mutex;  // protects what follows
    std::vector<std::shared_ptr<TimelineTrack>> tracks;
  };

  std::shared_ptr<State> state_;
};

// On a track that no thread is attached to: from `since` until now.
void record_span(TimelineTrack& track, Activity activity, Clock::time_point since,
                 const TimelineLabels& labels = {}, const char* name = nullptr);

// While it lives, the thread that made it records on a track of its own. Where another one lives in
// the thread, this one takes its place meanwhile. Null: the thread takes no part.
class TimelineThread {
 public:
  TimelineThread(Timeline* timeline, std::string_view track);
  ~TimelineThread();
  TimelineThread(const TimelineThread&) = delete;
  TimelineThread& operator=(const TimelineThread&) = delete;

  // The calling thread's; null where it takes no part.
  static TimelineThread* current() { return current_; }

  Timeline& timeline() const { return *timeline_; }
  TimelineTrack& track() const { return *track_; }
  // A second one beside it, for what is too much for the first.
  TimelineTrack& operations();
  // Of what the thread is doing: events take from here what they do not say themselves.
  const TimelineLabels& labels() const { return labels_; }
  void set_labels(const TimelineLabels& labels) { labels_ = labels; }

 private:
  friend class TimelineScope;

  static constinit thread_local TimelineThread* current_;

  Timeline* const timeline_;
  const std::shared_ptr<TimelineTrack> track_;
  std::shared_ptr<TimelineTrack> operations_;
  TimelineThread* const before_;
  TimelineLabels labels_;
};

// The calling thread's; null where it takes no part.
inline Timeline* current_timeline() {
  TimelineThread* const thread = TimelineThread::current();
  return thread ? &thread->timeline() : nullptr;
}

// Records what the calling thread does in this scope. Scopes nest, and inner ones have the step,
// stage, micro-batch and bucket of outer ones. In a step that is not to be recorded, nothing in the
// scope is.
class TimelineScope {
 public:
  // `name`: instead of the activity's; it outlives the timeline.
  explicit TimelineScope(Activity activity, const TimelineLabels& labels = {},
                         const char* name = nullptr)
      : thread_(TimelineThread::current()) {
    if (thread_) [[unlikely]]
      open(activity, labels, name);
  }
  // Of a user's own; a string literal.
  explicit TimelineScope(const char* name) : TimelineScope(Activity::program, {}, name) {}
  ~TimelineScope() {
    if (thread_) [[unlikely]]
      close();
  }
  TimelineScope(const TimelineScope&) = delete;
  TimelineScope& operator=(const TimelineScope&) = delete;

  // Known later than where it begins.
  void set_step(std::int64_t step);
  void set_bytes(std::int64_t bytes) {
    if (thread_) open_.event.bytes = bytes;
  }

 private:
  void open(Activity activity, const TimelineLabels& labels, const char* name);
  void close();

  TimelineThread* const thread_;
  union {
    struct {
      bool muted;
      TimelineLabels outer;
      TimelineEvent event;
    } open_;  // where the thread takes part: nothing is written where it does not
  };
};

// Labels of what is recorded in this scope, which records nothing itself.
class TimelineLabelled {
 public:
  explicit TimelineLabelled(const TimelineLabels& labels) : thread_(TimelineThread::current()) {
    if (thread_) [[unlikely]] {
      outer_ = thread_->labels();
      thread_->set_labels(within(outer_, labels));
    }
  }
  ~TimelineLabelled() {
    if (thread_) [[unlikely]]
      thread_->set_labels(outer_);
  }
  TimelineLabelled(const TimelineLabelled&) = delete;
  TimelineLabelled& operator=(const TimelineLabelled&) = delete;

 private:
  TimelineThread* const thread_;
  TimelineLabels outer_;
};

// From now on `name`, a string literal, has this value: the fill of a queue. A curve of its own in
// the rank's rows.
void timeline_counter(const char* name, std::int64_t value);

}  // namespace asup
