#include "asup/gossip/dealt_samples.h"

#include <algorithm>

namespace asup::gossip {
namespace {

std::uint64_t size_of(const std::deque<SampleRun>& runs) {
  std::uint64_t size = 0;
  for (const SampleRun& run : runs) size += run.size();
  return size;
}

}  // namespace

SampleRun SampleRun::take(std::uint64_t count) {
  const bool leaves_one = count > 1 && size() == count + 1;
  const SampleRun taken{begin, begin + (leaves_one ? size() : std::min(count, size()))};
  begin = taken.end;
  return taken;
}

DealtSamples::DealtSamples(std::uint64_t begin, std::vector<SampleRun> finished) : next_(begin) {
  std::ranges::sort(finished, {}, &SampleRun::begin);
  for (const SampleRun& run : finished) {
    if (run.end <= next_) continue;
    if (run.begin > next_) returned_.push_back({next_, run.begin});
    next_ = run.end;
  }
}

std::optional<SampleRun> DealtSamples::deal(int worker, std::uint64_t count, std::uint64_t limit) {
  if (count == 0) return std::nullopt;
  std::optional<SampleRun> run;
  if (!returned_.empty() && returned_.front().begin < limit) {
    SampleRun& first = returned_.front();
    run = SampleRun{first.begin, std::min(first.end, limit)}.take(count);
    first.begin = run->end;
    if (first.size() == 0) returned_.pop_front();
  } else if (next_ < limit) {
    run = SampleRun{next_, limit}.take(count);
    next_ = run->end;
  }
  if (run) out_[worker].push_back(*run);
  return run;
}

std::optional<SampleRun> DealtSamples::deal_ahead(int worker, std::uint64_t count,
                                                  std::uint64_t steps, std::uint64_t limit,
                                                  int workers) {
  if (!returned_.empty() || next_ >= limit || count == 0) return std::nullopt;
  std::uint64_t finished_by_all = 0;
  for (const auto& [_, finished] : finished_) finished_by_all += finished;
  if (finished_by_all == 0) return std::nullopt;
  const double part =
      std::min(static_cast<double>(finished_by(worker)) / static_cast<double>(finished_by_all),
               1.0 / workers);
  const auto most = static_cast<std::uint64_t>(part * static_cast<double>(limit - next_) / 2);
  const std::uint64_t has = size_of(out_[worker]);
  const std::uint64_t fit = most > has ? std::min(steps, (most - has) / count) : 0;
  return fit > 0 ? deal(worker, fit * count, limit) : std::nullopt;
}

void DealtSamples::finish(int worker, std::uint64_t count) {
  auto& runs = out_[worker];
  while (count > 0 && !runs.empty()) {
    SampleRun& first = runs.front();
    const std::uint64_t done = std::min(count, first.size());
    first.begin += done;
    finished_[worker] += done;
    count -= done;
    if (first.size() == 0) runs.pop_front();
  }
}

void DealtSamples::lose(int worker) {
  const auto found = out_.extract(worker);
  if (!found) return;
  returned_.insert(returned_.end(), found.mapped().begin(), found.mapped().end());
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
