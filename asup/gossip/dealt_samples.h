// Who has which samples of a job whose workers go at their own pace: the places of the job's global
// order of samples, from its first on, are dealt out one run after the other, and each is done once
// by whoever got it. A worker may have some beside those that it works on, so that it need not wait
// for its next ones. What a lost worker had and did not finish is dealt out again, first of all.
// Values only.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace asup::gossip {

// Places [begin, end).
struct SampleRun {
  std::uint64_t begin = 0, end = 0;
  std::uint64_t size() const { return end - begin; }
  // Takes up to `count` from its begin; one more where it would be left alone, of which BatchNorm
  // has no statistics.
  SampleRun take(std::uint64_t count);
  bool operator==(const SampleRun&) const = default;
};

class DealtSamples {
 public:
  // All before `begin` are done, and these.
  explicit DealtSamples(std::uint64_t begin = 0, std::vector<SampleRun> finished = {});

  // The worker's next run: `count` samples before the place `limit`, or as many as there are, see
  // SampleRun::take(). Nothing: there are none.
  std::optional<SampleRun> deal(int worker, std::uint64_t count, std::uint64_t limit);
  // The same ahead of time, for up to `steps` steps of `count`. With what it has, one of `workers`
  // gets no more than half of its part of what is left before `limit`: an even one, or a slow one
  // that is as little as it has finished so far. So nobody waits there for what it took ahead.
  std::optional<SampleRun> deal_ahead(int worker, std::uint64_t count, std::uint64_t steps,
                                      std::uint64_t limit, int workers);
  // The worker has done so many of those that it has, the first ones.
  void finish(int worker, std::uint64_t count);
  // The worker is lost.
  void lose(int worker);

  // All before this place are done, but for what workers have right now.
  std::uint64_t dealt() const;
  // Samples that a worker has finished.
  std::uint64_t finished_by(int worker) const;

 private:
  std::uint64_t next_;                        // place that was never dealt
  std::deque<SampleRun> returned_;            // before it, to be done, in order
  std::map<int, std::deque<SampleRun>> out_;  // by worker, those to be done first in front
  std::map<int, std::uint64_t> finished_;
};

}  // namespace asup::gossip
