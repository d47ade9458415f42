// Who has which samples of a job whose workers go at their own pace: the places of the job's global
// order of samples, from its first on, are dealt out one run after the other, and each is done once
// by whoever got it. What a lost worker had and did not finish is dealt out again, first of all.
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
  bool operator==(const SampleRun&) const = default;
};

class DealtSamples {
 public:
  // All before `begin` are done, and these.
  explicit DealtSamples(std::uint64_t begin = 0, std::vector<SampleRun> finished = {});

  // The worker's next run: `count` samples before the place `limit`, or as many as there are; one
  // more where it would be left alone, of which BatchNorm has no statistics. Nothing: there are
  // none.
  std::optional<SampleRun> deal(int worker, std::uint64_t count, std::uint64_t limit);
  // The worker has done the run that it was dealt last.
  void finish(int worker);
  // The worker is lost.
  void lose(int worker);

  // All before this place are done, but for what workers have right now.
  std::uint64_t dealt() const;
  // Samples that a worker has finished.
  std::uint64_t finished_by(int worker) const;

 private:
  std::uint64_t next_;              // place that was never dealt
  std::deque<SampleRun> returned_;  // before it, to be done, in order
  std::map<int, SampleRun> out_;    // by worker
  std::map<int, std::uint64_t> finished_;
};

}  // namespace asup::gossip
