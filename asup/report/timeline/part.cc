#include "asup/report/timeline/part.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "asup/base/error.h"

namespace asup::report {
namespace {

constexpr std::uint64_t kMark = 0x31656e696c656d74;  // "tmeline1", for a part of another version

class Writer {
 public:
  template <typename Value>
  void put(const Value& value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put_text(std::string_view text) {
    put<std::uint64_t>(text.size());
    bytes_.append(text);
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  template <typename Value>
  Value get() {
    Value value;
    std::memcpy(&value, part(sizeof value).data(), sizeof value);
    return value;
  }
  std::string_view get_text() { return part(get<std::uint64_t>()); }
  // How many things follow of which each has so many bytes at least.
  std::size_t get_count(std::size_t least_bytes) {
    const auto count = get<std::uint64_t>();
    require(count <= bytes_.size() / least_bytes, "a timeline's part is cut off");
    return count;
  }

 private:
  std::string_view part(std::uint64_t size) {
    require(size <= bytes_.size(), "a timeline's part is cut off");
    const std::string_view found = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return found;
  }

  std::string_view bytes_;
};

// Names by their numbers, from 1 on; 0: none.
class NameTable {
 public:
  std::uint64_t number_of(const char* name) {
    if (!name) return 0;
    const auto [place, is_new] = numbers_.emplace(name, numbers_.size() + 1);
    if (is_new) names_.push_back(name);
    return place->second;
  }
  const std::vector<const char*>& names() const { return names_; }

 private:
  std::map<const char*, std::uint64_t> numbers_;
  std::vector<const char*> names_;
};

struct PackedEvent {
  std::int64_t begin, end;
  std::uint32_t name, detail;
  std::int64_t step, bytes;
  std::int32_t stage, micro_batch, bucket;
  std::uint16_t activity, kind;
};

PackedEvent packed(const TimelineEvent& event, NameTable& names) {
  return {event.begin,
          event.end,
          static_cast<std::uint32_t>(names.number_of(event.name)),
          static_cast<std::uint32_t>(names.number_of(event.detail)),
          event.step,
          event.bytes,
          event.stage,
          event.micro_batch,
          event.bucket,
          static_cast<std::uint16_t>(event.activity),
          static_cast<std::uint16_t>(event.kind)};
}

// In nanoseconds, within decades: what differences of times are made of.
bool is_time(std::int64_t time) {
  constexpr std::int64_t kMost = std::int64_t{1} << 61;
  return time > -kMost && time < kMost;
}

ClockOffset checked(const ClockOffset& clock) {
  require(is_time(clock.at) && is_time(clock.offset) && is_time(clock.error),
          "a timeline's part has a clock that makes no sense");
  return clock;
}

TimelineEvent unpacked(const PackedEvent& from, const std::vector<const char*>& names) {
  require(from.activity < kActivities && from.kind <= 1 && from.name < names.size() &&
              from.detail < names.size() && is_time(from.begin) &&
              (from.kind == 1 || (from.begin <= from.end && is_time(from.end))),
          "a timeline's part has an event that makes no sense");
  TimelineEvent event;
  event.begin = from.begin;
  event.end = from.end;
  event.name = names[from.name];
  event.detail = names[from.detail];
  event.step = from.step;
  event.bytes = from.bytes;
  event.stage = from.stage;
  event.micro_batch = from.micro_batch;
  event.bucket = from.bucket;
  event.activity = static_cast<Activity>(from.activity);
  event.kind = static_cast<TimelineEvent::Kind>(from.kind);
  return event;
}

// A counter's `end` is its value.
std::int64_t last_moment(const TimelineEvent& event) {
  return event.kind == TimelineEvent::Kind::span ? event.end : event.begin;
}

}  // namespace

const char* TimelineNames::keep(std::string_view name) {
  const auto found = names_.find(name);
  return (found != names_.end() ? found : names_.emplace(name).first)->c_str();
}

void keep_newest(std::vector<TimelinePart::Track>& tracks, std::size_t most) {
  std::vector<std::int64_t> moments;
  for (const auto& track : tracks)
    for (const TimelineEvent& event : track.events) moments.push_back(last_moment(event));
  if (moments.size() <= most) return;
  const auto first = moments.begin() + static_cast<std::ptrdiff_t>(moments.size() - most);
  std::nth_element(moments.begin(), first, moments.end());
  const std::int64_t since = *first;
  for (auto& track : tracks)
    track.dropped += std::erase_if(
        track.events, [&](const TimelineEvent& event) { return last_moment(event) < since; });
}

std::string pack(const TimelinePart& part) {
  NameTable names;
  Writer events;
  events.put<std::uint64_t>(part.tracks.size());
  for (const auto& track : part.tracks) {
    events.put_text(track.name);
    events.put(track.dropped);
    events.put<std::uint64_t>(track.events.size());
    for (const TimelineEvent& event : track.events) events.put(packed(event, names));
  }
  Writer all;
  all.put(kMark);
  all.put(part.process);
  all.put_text(part.name);
  all.put_text(part.host);
  all.put<std::int64_t>(part.order);
  all.put<std::uint64_t>(part.clock.size());
  for (const ClockOffset& each : part.clock) all.put(each);
  all.put<std::uint64_t>(names.names().size());
  for (const char* name : names.names()) all.put_text(name);
  return all.take() + events.take();
}

TimelinePart unpack(std::string_view bytes, TimelineNames& names) {
  Reader from(bytes);
  require(from.get<std::uint64_t>() == kMark, "a timeline's part is of another version of asup");
  TimelinePart part;
  part.process = from.get<std::uint64_t>();
  part.name = from.get_text();
  part.host = from.get_text();
  part.order = static_cast<int>(from.get<std::int64_t>());
  for (std::size_t left = from.get_count(sizeof(ClockOffset)); left > 0; --left)
    part.clock.push_back(checked(from.get<ClockOffset>()));
  std::vector<const char*> by_number{nullptr};
  for (std::size_t left = from.get_count(sizeof(std::uint64_t)); left > 0; --left)
    by_number.push_back(names.keep(from.get_text()));
  for (std::size_t left = from.get_count(3 * sizeof(std::uint64_t)); left > 0; --left) {
    TimelinePart::Track& track = part.tracks.emplace_back();
    track.name = from.get_text();
    track.dropped = from.get<std::uint64_t>();
    const std::size_t count = from.get_count(sizeof(PackedEvent));
    track.events.reserve(count);
    for (std::size_t i = 0; i < count; ++i)
      track.events.push_back(unpacked(from.get<PackedEvent>(), by_number));
  }
  return part;
}

}  // namespace asup::report
