#include "asup/distribute/recorded_timeline.h"

#include <fmt/format.h>

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/base/quietly.h"
#include "asup/report/timeline/trace_file.h"

namespace asup {
namespace {

constexpr Seconds kPatience{3};  // for those who are left

std::string name_of_rank(int rank) { return fmt::format("rank {}", rank); }

}  // namespace

RecordedTimeline::RecordedTimeline(const Options& options, int rank)
    : file_(options.file),
      timeline_(options.steps),
      collector_(timeline_, name_of_rank(rank), rank),
      thread_(&timeline_, "training") {
  if (options.operators) operators_.emplace();
}

void RecordedTimeline::begin(Communicator& communicator, int rank) {
  collector_.rename(name_of_rank(rank), rank);
  collector_.measure(communicator);
}

void RecordedTimeline::collect(Communicator& communicator) {
  collector_.collect(communicator, collected_);
}

void RecordedTimeline::collect_after_loss(Communicator& communicator) noexcept {
  quietly([&] {
    communicator.rebuild(kPatience).or_throw("finding who is left");
    collect(communicator);
  });
}

void RecordedTimeline::write_own() noexcept {
  quietly([&] { collector_.collect_own(collected_); });
  write();
}

void RecordedTimeline::end_step() {
  record_span(thread_.track(), Activity::step, step_began_, {.step = ++steps_});
  step_began_ = Clock::now();
  thread_.set_labels({.step = steps_ + 1});
}

void RecordedTimeline::write() noexcept try {
  std::uint64_t dropped = 0;
  for (const report::TimelinePart* process : collected_.processes())
    for (const auto& track : process->tracks) dropped += track.dropped;
  if (dropped > 0)
    log().warn(
        "the timeline holds the last events: {} older ones gave way to them; record fewer steps to "
        "have all of theirs",
        dropped);
  report::write_timeline(file_, collected_);
} catch (const std::exception& error) {
  log().warn("the timeline was not written: {}", error.what());
}

}  // namespace asup
