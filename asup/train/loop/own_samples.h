// The samples of a worker that trains at its own pace: those that it was dealt
// (gossip/sample_dealer.h), the one step of them that it does, what it has read ahead of time for
// the next, and what it has done since workers last met. Used from the thread that trains.
#pragma once

#include <deque>

#include "asup/data/read_ahead.h"
#include "asup/gossip/sample_dealer.h"
#include "asup/net/job.h"
#include "asup/train/loop/sample_count.h"
#include "asup/train/state/run_state.h"

namespace asup::train {

class OwnSamples {
 public:
  OwnSamples(RunState& run, Job& job, const std::vector<std::int64_t>& sync_points);

  // Workers have nothing now, and all before `place` is done. `dealer`: the same on all.
  void begin(int dealer, std::uint64_t place);
  // The one that dealt is lost. What it did since all last met is not known, and is done again.
  // Collective of those who are left; nobody has anything.
  void begin_anew(int dealer);
  void lose(int worker) { dealer_.lose(worker); }
  int dealer() const { return dealer_.dealer(); }

  // In samples: this worker's part of a batch.
  std::size_t part() const { return part_; }
  void set_part(std::size_t part) { part_ = part; }

  // Whether there are samples for a step: `most` of them, where the one that deals must be asked.
  bool find(std::size_t most);
  // The same of what this worker has, or has asked for, after which it gets nothing any more.
  bool find_last();

  // The step that find() has found: none where others have taken all since the last sync point.
  struct Step {
    std::int64_t number = 0;
    std::size_t samples = 0;
    data::Batch batch;
  };
  // And begins to read the next; `most_ahead`: steps that this worker may have samples for then.
  Step read(std::size_t most_ahead);
  void finish();

  // All before this place is done, but for what workers have right now; 0 except where this worker
  // deals.
  std::uint64_t dealt() { return dealer_.dealt(); }
  // By worker, since dealing began.
  std::vector<std::uint64_t> finished() { return dealer_.finished_by_worker(); }
  // Workers have met, where all before this place was done.
  void met(std::uint64_t place);

 private:
  bool take();
  void look_ahead(std::size_t most);
  std::uint64_t limit() const;
  std::int64_t next_sync_point() const;
  std::int64_t step_of(const gossip::SampleRun& samples) const;
  std::uint64_t epoch_of(const gossip::SampleRun& samples) const;
  std::vector<std::int64_t> indices_of(const gossip::SampleRun& samples) const;

  RunState& run_;
  const TrainingContext& context_;
  const std::vector<std::int64_t>& sync_points_;
  const SampleCount samples_;
  const Seconds timeout_;
  gossip::SampleDealer dealer_;
  data::ReadAhead read_ahead_;

  std::size_t part_ = 0;
  std::optional<gossip::SampleRun> current_;  // what this worker is to do next, or does
  std::deque<gossip::SampleRun> ahead_;       // and then: the first one is of a step
  // All before this place were done when workers last met, and those this worker has done since.
  std::uint64_t done_before_ = 0;
  std::vector<gossip::SampleRun> done_;
};

}  // namespace asup::train
