// Who works on which samples: deals out the steps of a job as leases and knows what is done.
//
// A step is a global batch. A lease is a run of the samples of one step, of about B / shares. With
// Dealing::fixed, each worker has its part of each step, so that a synchronous job is the same
// twice. With Dealing::in_order, a worker takes the next run that nobody has, so that a fast one
// takes more.
// Lengths may also be set by worker (balance()): then those that ask one after the other share what
// is left of a step in these proportions, until one asks again.
// What a lost worker had, or is to be redone, is dealt out again, first of all.
//
// Where a batch has two samples for each share, no lease is of one alone, of which BatchNorm has no
// statistics, unless all of a step is.
//
// A sync point is a step before which all must be done. Nothing beyond it is dealt out until
// pass(). Shortly before one, a slow worker gets a lease no longer than it can do while the others
// do the rest, or none: guided self-scheduling (Polychronopoulos and Kuck 1987) by measured speeds.
//
// Values and arithmetic only. One thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace asup::ps::pace {

struct Workload {
  std::uint64_t steps = 0;       // of the whole job
  std::uint64_t first_step = 0;  // above 0 where a job is resumed
  std::uint64_t batch = 0;       // samples of a step
  std::uint64_t steps_per_epoch = 0;
  std::uint64_t last_batch = 0;  // samples of an epoch's last step; 0: as many as of any other
  std::vector<std::uint64_t> sync_points{};  // ascending; f: when steps 0 … f-1 are done
  bool can_leave = false;   // at a sync point, workers can go on without the servers
  std::uint64_t grain = 1;  // samples; leases that are not even are of multiples of it
};

// Throws BadInput.
void require_sense(const Workload& work);

// By what a push's learning rate must be multiplied. Servers take a push for as much of a step as
// it has samples of a whole batch; all of an epoch's shorter last batch is a step too.
double step_weight(const Workload& work, std::uint64_t step);

// Samples [begin, end) of step `step`.
struct Lease {
  std::uint64_t step = 0;
  std::uint64_t begin = 0, end = 0;
  std::uint64_t samples() const { return end - begin; }
  bool operator==(const Lease&) const = default;
};

enum class Dealing { fixed, in_order };

// What was measured of the workers, by worker.
struct Speeds {
  struct Worker {
    double seconds_per_sample = 0;
    double busy = 0;  // seconds until it will be done with its lease; 0 where it has none
  };
  std::map<int, Worker> workers;  // those of which something is known
};

class SampleAllocator {
 public:
  // `shares`: even leases of a step.
  SampleAllocator(const Workload& work, Dealing dealing, int shares);

  void joins(int worker);
  // How many leases came back: those that were out, and a part that was its to do.
  int leaves(int worker);

  // Dealing::in_order: lengths of leases, even ones being 1. Workers that are not named have 1; an
  // empty map makes all leases even again.
  void balance(std::map<int, double> lengths);

  // The worker's next lease, or nothing: it must rest.
  std::optional<Lease> lease(int worker, const Speeds& speeds);
  // Whether lease() would give something.
  bool has_lease_for(int worker, const Speeds& speeds) const;
  // The worker's push of the lease that was the `number`th it was given, 0 first, since it joined:
  // applied, or dropped.
  void done(int worker, std::uint64_t number, bool dropped);
  // The same, where it was dropped and is to be dealt out again.
  void redo(int worker, std::uint64_t number);

  // What it was given last, if that is not done.
  std::optional<Lease> last_of(int worker) const;

  // All before the sync point is dealt out, and nothing is out: pushed, and applied or dropped.
  bool at_sync_point() const;
  std::uint64_t sync_point() const;  // the next one, or Workload::steps
  void pass();                       // needs: at_sync_point()
  // One more sync point, where none comes before: at the end of the step that is dealt out now.
  void sync_point_soon();
  bool at_end() const;

  std::uint64_t step() const { return step_; }  // that is dealt out now
  std::uint64_t samples_of(std::uint64_t step) const;
  std::uint64_t samples_total() const { return total_; }      // from first_step on
  std::uint64_t samples_done() const { return done_; }        // dropped ones included
  std::uint64_t samples_dropped() const { return dropped_; }  // of pushes that were dropped

 private:
  struct Member {
    std::uint64_t leases = 0;            // given to it
    std::map<std::uint64_t, Lease> out;  // not done, by number
    std::optional<Lease> part;           // fixed: of the step, not yet begun
  };

  void deal();
  void go_on_if_done();
  Lease taken_out(int worker, std::uint64_t number);
  void give_back(const Lease& lease);
  bool is_out() const;
  Lease next_run(int worker) const;
  Lease even_run() const;
  Lease balanced_run(int worker) const;
  Lease part_of(std::uint64_t step, std::uint64_t index, std::uint64_t parts) const;
  std::uint64_t leaving_none_alone(std::uint64_t samples, std::uint64_t left) const;
  double length_of(int worker) const;
  std::uint64_t fair_length(int worker, std::uint64_t full, const Speeds& speeds) const;
  std::uint64_t samples_between(std::uint64_t step, std::uint64_t end) const;

  Workload work_;  // constant, but for sync points that are asked for

  // Constant after construction.
  const Dealing dealing_;
  const std::uint64_t shares_;
  const bool has_pairs_;  // no lease of one sample
  std::uint64_t total_ = 0;

  std::uint64_t step_;
  std::uint64_t offset_ = 0;    // in_order: samples of the step that are dealt out
  bool is_dealt_ = false;       // fixed: the step's parts are
  std::deque<Lease> returned_;  // to be done again, in order
  std::map<int, Member> members_;
  std::map<int, double> lengths_;  // empty: even leases
  std::set<int> served_;  // balanced: have had their share of the step since it was last split
  std::size_t sync_points_passed_ = 0;
  std::uint64_t done_ = 0, dropped_ = 0;
};

}  // namespace asup::ps::pace
