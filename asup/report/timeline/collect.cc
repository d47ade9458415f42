#include "asup/report/timeline/collect.h"

#include <unistd.h>

#include <array>
#include <random>

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/collective/text_exchange.h"

namespace asup::report {
namespace {

constexpr std::size_t kTrips = 40;          // at least
constexpr std::size_t kMostTrips = 400;     // where the machine is busy
constexpr std::int64_t kGoodTrip = 50'000;  // ns: half of it is the error
constexpr std::int64_t kEnough = 0;

std::uint64_t random_number() {
  std::random_device random;
  return static_cast<std::uint64_t>(random()) << 32 | random();
}

std::string name_of_host() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

void send(Communicator& communicator, std::int64_t value, int peer) {
  communicator.send(buffer_of(std::span(&value, 1)), peer).or_throw("aligning clocks");
}

std::int64_t receive(Communicator& communicator, int peer) {
  std::int64_t value = 0;
  communicator.recv(buffer_of(std::span(&value, 1)), peer).or_throw("aligning clocks");
  return value;
}

// Rank 0's part: it answers with its own time until it is told that it is enough.
void tell_time(Communicator& communicator, int peer) {
  while (receive(communicator, peer) != kEnough) send(communicator, timeline_now(), peer);
}

RoundTrip ask_time(Communicator& communicator) {
  RoundTrip trip;
  trip.sent = timeline_now();
  send(communicator, kEnough + 1, 0);
  trip.answered = receive(communicator, 0);
  trip.received = timeline_now();
  return trip;
}

}  // namespace

ClockOffset measure_clock(Communicator& communicator) {
  if (communicator.rank() == 0) {
    for (int peer = 1; peer < communicator.size(); ++peer) tell_time(communicator, peer);
    return {timeline_now(), 0, 0};
  }
  std::vector<RoundTrip> trips;
  ClockOffset found;
  do {
    trips.push_back(ask_time(communicator));
    found = estimate_offset(trips);
  } while (trips.size() < kTrips || (2 * found.error > kGoodTrip && trips.size() < kMostTrips));
  send(communicator, kEnough, 0);
  return found;
}

TimelineCollector::TimelineCollector(const Timeline& timeline, std::string name, int order)
    : timeline_(timeline), process_(random_number()), name_(std::move(name)), order_(order) {}

void TimelineCollector::rename(std::string name, int order) {
  name_ = std::move(name);
  order_ = order;
}

void TimelineCollector::measure(Communicator& communicator) {
  const TimelineThread none(nullptr, "");  // it would be hundreds of events
  clock_.push_back(measure_clock(communicator));
}

void TimelineCollector::collect(Communicator& communicator, JobTimeline& to) {
  measure(communicator);
  const TimelineThread none(nullptr, "");
  const std::string own = pack(take(JobTimeline::share_of_process(communicator.size())));
  std::vector<std::string> texts;
  try {
    texts = gather_texts_at_first(communicator, own);
  } catch (...) {
    to.add(own);  // the others' are theirs to keep
    throw;
  }
  for (std::size_t rank = 0; rank < texts.size(); ++rank) try {
      to.add(texts[rank]);
    } catch (const BadInput& error) {
      log().warn("the timeline of rank {} is left out: {}", rank, error.what());
    }
}

void TimelineCollector::collect_own(JobTimeline& to) {
  to.add(pack(take(JobTimeline::kMostOfProcess)));
}

TimelinePart TimelineCollector::take(std::size_t most) {
  TimelinePart part{.process = process_, .name = name_, .host = name_of_host(), .order = order_};
  part.clock = std::exchange(clock_, {});
  for (auto& [name, taken] : timeline_.take())
    part.tracks.push_back({name, taken.dropped, std::move(taken.events)});
  keep_newest(part.tracks, most);
  return part;
}

}  // namespace asup::report
