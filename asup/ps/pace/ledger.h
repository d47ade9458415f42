// Who works on which samples: deals out the steps of a job as leases and knows what is done.
//
// A step is a global batch. A lease is a run of the samples of one step, of about B / n. With
// Dealing::fixed, each worker has its part of each step, so that a synchronous job is the same
// twice; a worker that comes too late for a step goes on with the one that the others are at. With
// Dealing::in_order, a worker takes the next run that nobody has, so that a fast one takes more.
// What a lost worker had is dealt out again, first of all.
//
// A fence is a step before which all must be done. Nothing beyond it is dealt out until pass().
// Shortly before one, a slow worker gets a lease no longer than it can do while the others do the
// rest, or none: guided self-scheduling (Polychronopoulos and Kuck 1987) by measured speeds.
//
// Values and arithmetic only. One thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace asup::ps::pace {

struct Work {
  std::uint64_t steps = 0;       // of the whole job
  std::uint64_t first_step = 0;  // above 0 where a job is resumed
  std::uint64_t batch = 0;       // samples of a step
  std::uint64_t steps_per_epoch = 0;
  std::uint64_t last_batch = 0;       // samples of an epoch's last step; 0: as many as of any other
  std::vector<std::uint64_t> fences;  // ascending; f: steps 0 … f-1 are done. `steps` is one too
};

// Throws BadInput.
void require_sense(const Work& work);

// Samples [begin, end) of step `step`.
struct Lease {
  std::uint64_t step = 0;
  std::uint64_t begin = 0, end = 0;
  std::uint64_t samples() const { return end - begin; }
  bool operator==(const Lease&) const = default;
};

enum class Dealing { fixed, in_order };

class Ledger {
 public:
  // Seconds that a worker takes for a sample; nothing where that is not known yet.
  using Pace = std::function<std::optional<double>(int worker)>;
  // When a worker will be done with its lease, in seconds from now; 0 where it has none.
  using Busy = std::function<double(int worker)>;

  Ledger(const Work& work, Dealing dealing, int workers);

  void joins(int worker);
  // Whether a lease came back, or a part that was its to do.
  bool leaves(int worker);

  // The worker's next lease, or nothing: it must rest. needs: it has none.
  std::optional<Lease> lease(int worker, const Pace& pace, const Busy& busy);
  // Whether lease() would give something.
  bool has_lease_for(int worker, const Pace& pace, const Busy& busy) const;
  // Its push was applied or dropped.
  void done(int worker, bool dropped);

  std::optional<Lease> held(int worker) const;
  bool is_out() const { return !out_.empty(); }  // some lease is

  // All before the fence is dealt out, and nothing is out: pushed, and applied or dropped.
  bool at_fence() const;
  std::uint64_t fence() const;  // the next one; Work::steps at the latest
  void pass();                  // needs: at_fence()
  bool at_end() const;

  std::uint64_t step() const { return step_; }  // that is dealt out now
  std::uint64_t samples_of(std::uint64_t step) const;
  std::uint64_t samples_left() const;                     // in the whole job, not yet done
  std::uint64_t samples_total() const { return total_; }  // from first_step on
  std::uint64_t samples_dropped() const { return dropped_; }
  std::uint64_t samples_skipped() const { return skipped_; }  // parts that late workers never began

 private:
  void deal();
  void advance();
  bool is_dealt_out() const;
  std::uint64_t fair_length(int worker, std::uint64_t full, const Pace& pace,
                            const Busy& busy) const;
  std::optional<Lease> choose(int worker, const Pace& pace, const Busy& busy) const;
  std::uint64_t left_before_fence() const;

  // Constant after construction.
  const Work work_;
  const Dealing dealing_;
  const std::uint64_t workers_;

  std::uint64_t step_;
  std::uint64_t offset_ = 0;    // in_order: of the step's samples, dealt out
  std::map<int, Lease> parts_;  // fixed: of the step, not yet begun
  std::deque<Lease> returned_;  // of lost workers
  std::map<int, Lease> out_;
  std::set<int> present_;
  std::size_t fences_passed_ = 0;
  std::uint64_t total_ = 0, done_ = 0, dropped_ = 0, skipped_ = 0;
};

}  // namespace asup::ps::pace
