#include "asup/gossip/dealt_samples.h"

#include <algorithm>

namespace asup::gossip {
namespace {

// Takes up to `count` places before `limit` from the begin of `from`.
SampleRun take(SampleRun& from, std::uint64_t count, std::uint64_t limit) {
  const std::uint64_t there = std::min(from.end, limit) - from.begin;
  const bool leaves_one = count > 1 && there == count + 1;
  const std::uint64_t taken = leaves_one ? there : std::min(count, there);
  const SampleRun run{from.begin, from.begin + taken};
  from.begin = run.end;
  return run;
}

}  // namespace

DealtSamples::DealtSamples(std::uint64_t begin, std::vector<SampleRun> finished) : next_(begin) {
  std::ranges::sort(finished, {}, &SampleRun::begin);
  for (const SampleRun& run : finished) {
    if (run.end <= next_) continue;
    if (run.begin > next_) returned_.push_back({next_, run.begin});
    next_ = run.end;
  }
}

std::optional<SampleRun> DealtSamples::deal(int worker, std::uint64_t count, std::uint64_t limit) {
  std::optional<SampleRun> run;
  if (!returned_.empty() && returned_.front().begin < limit) {
    run = take(returned_.front(), count, limit);
    if (returned_.front().size() == 0) returned_.pop_front();
  } else if (next_ < limit) {
    SampleRun rest{next_, limit};
    run = take(rest, count, limit);
    next_ = run->end;
  }
  if (run) out_[worker] = *run;
  return run;
}

void DealtSamples::finish(int worker) {
  if (const auto found = out_.extract(worker)) finished_[worker] += found.mapped().size();
}

void DealtSamples::lose(int worker) {
  const auto found = out_.extract(worker);
  if (!found) return;
  returned_.push_back(found.mapped());
  std::ranges::sort(returned_, {}, &SampleRun::begin);
}

std::uint64_t DealtSamples::dealt() const {
  return returned_.empty() ? next_ : returned_.front().begin;
}

std::uint64_t DealtSamples::finished_by(int worker) const {
  const auto found = finished_.find(worker);
  return found == finished_.end() ? 0 : found->second;
}

}  // namespace asup::gossip
