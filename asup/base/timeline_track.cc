#include "asup/base/timeline_track.h"

#include <algorithm>
#include <array>
#include <bit>

#include "asup/base/error.h"

namespace asup {
namespace {

constexpr std::size_t kWords = 8;
using Words = std::array<std::uint64_t, kWords>;
static_assert(sizeof(TimelineEvent) == sizeof(Words), "an event is a cache line");

constexpr std::size_t kMostNames = 4096;

std::uint64_t* memory_for(std::uint64_t capacity) {
  void* memory = std::calloc(capacity, sizeof(Words));
  check(memory != nullptr, "no memory for a timeline's track of {} events", capacity);
  return static_cast<std::uint64_t*>(memory);
}

}  // namespace

TimelineTrack::TimelineTrack(std::string name, std::size_t capacity)
    : name_(std::move(name)),
      capacity_(std::bit_ceil(std::max<std::size_t>(capacity, 2))),
      words_(memory_for(capacity_)) {}

std::uint64_t* TimelineTrack::slot(std::uint64_t number) const {
  return words_.get() + kWords * (number & (capacity_ - 1));
}

// Whoever reads a word of an event sees that all before it were recorded.
void TimelineTrack::record(const TimelineEvent& event) {
  const std::uint64_t number = recorded_.load(std::memory_order_relaxed);
  const auto words = std::bit_cast<Words>(event);
  std::uint64_t* to = slot(number);
  for (std::size_t i = 0; i < kWords; ++i)
    std::atomic_ref(to[i]).store(words[i], std::memory_order_release);
  recorded_.store(number + 1, std::memory_order_release);
}

const char* TimelineTrack::keep(std::string_view name) {
  if (const auto found = names_.find(name); found != names_.end()) return found->c_str();
  if (names_.size() == kMostNames) return "…";
  return names_.emplace(name).first->c_str();
}

// An event may be recorded over while it is copied: it is among those that were lost then.
TimelineTrack::Taken TimelineTrack::take() {
  Taken taken;
  const std::uint64_t end = recorded_.load(std::memory_order_acquire);
  const std::uint64_t first = std::max(taken_, end - std::min(end, capacity_));
  taken.events.reserve(end - first);
  for (std::uint64_t number = first; number < end; ++number) {
    Words words;
    for (std::size_t i = 0; i < kWords; ++i)
      words[i] = std::atomic_ref(slot(number)[i]).load(std::memory_order_acquire);
    taken.events.push_back(std::bit_cast<TimelineEvent>(words));
  }
  const std::uint64_t under_way = recorded_.load(std::memory_order_acquire) + 1;
  const std::uint64_t whole = std::clamp(under_way - std::min(under_way, capacity_), first, end);
  taken.events.erase(taken.events.begin(),
                     taken.events.begin() + static_cast<std::ptrdiff_t>(whole - first));
  taken.dropped = whole - taken_;
  taken_ = end;
  return taken;
}

}  // namespace asup
