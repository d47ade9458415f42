// What a timeline consists of: what was done, when, and of which step. Values only; safe from any
// thread.
#pragma once

#include <cstdint>
#include <string_view>

namespace asup {

enum class Activity : std::uint16_t {
  step,
  data,  // the thread that trains waits for samples, or makes them
  load,  // samples are read and decoded beside training
  forward,
  backward,
  backward_weight,  // gradients of weights alone
  encode,           // gradients become fewer bytes
  exchange,         // a collective is under way
  send,
  recv,
  wait,  // for other workers, or for what they send
  optimizer,
  push,        // gradients leave for servers
  pull,        // parameters come from them
  lease,       // waits for samples to be dealt out
  update,      // a server applies what was pushed
  sync_point,  // what all workers do together between steps
  test,
  checkpoint,
  idle,       // there is nothing to do: a bubble of a pipeline, a server without messages
  operation,  // one of torch's
  program     // of the user's own, by its name
};
inline constexpr int kActivities = static_cast<int>(Activity::program) + 1;

// "backward", "weight gradient", …
std::string_view name_of(Activity activity);

// What an event is of, as far as it is known: negative or null where it is not.
struct TimelineLabels {
  std::int64_t step = -1;
  std::int64_t bytes = -1;
  std::int32_t stage = -1;
  std::int32_t micro_batch = -1;
  std::int32_t bucket = -1;
  const char* detail = nullptr;  // such as an algorithm; outlives the timeline
};

// These, and those of `outer` for what they do not say. Bytes and detail are an event's own.
TimelineLabels within(const TimelineLabels& outer, TimelineLabels labels);

struct TimelineEvent {
  enum class Kind : std::uint16_t {
    span,    // from `begin` to `end`
    counter  // from `begin` on, `name` has the value `end`
  };
  std::int64_t begin = 0, end = 0;  // nanoseconds of Clock
  const char* name = nullptr;       // null: the activity's; outlives the timeline
  const char* detail = nullptr;
  std::int64_t step = -1;
  std::int64_t bytes = -1;
  std::int32_t stage = -1;
  std::int32_t micro_batch = -1;
  std::int32_t bucket = -1;
  Activity activity = Activity::step;
  Kind kind = Kind::span;
};

TimelineEvent event_of(const TimelineLabels& labels);

}  // namespace asup
