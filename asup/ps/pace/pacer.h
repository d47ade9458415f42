// Decides when pushes become an update and when a worker may go on: the one mechanism behind every
// pace.
//
// Events go in, with the time at which they happened, and the commands that are now due come out,
// in the order in which they must be carried out. The same events give the same commands. A Pacer
// knows nothing of samples' places, links or clocks. One thread at a time.
//
// A worker is away, working (it has parameters and owes a push), held (it waits to go on) or
// resting (there is no work for it: nobody waits for it). Five bounds make all paces:
//   gather     an update is due when so many pushes are there, or when nobody works any more. All:
//              bsp. All but the backup workers, with keep 0: bsp with those (Chen et al. 2016). K:
//              K-async (Dutta et al. 2018). One: asp and ssp.
//   spare      so many of those who work are not waited for either.
//   staleness  a worker that has finished c leases begins the next one only when the slowest has
//              finished c - staleness (Ho et al. 2013). A worker's clock is the number of its own
//              pushes, however long its leases are and whatever becomes of the pushes. Only those
//              who work or are held count as slow. Who joins, or had nothing to do, begins at the
//              slowest one's clock, unless its own is ahead; where nobody is at work, as at a sync
//              point, all clocks begin anew.
//   keep       a push that is later than so many steps is dropped. 0: all whose update has gone
//              without them.
//   patience   what it is worth to have one more push in an update, in seconds summed over the
//              workers that wait for it. Where gather is not yet together, pushes wait for others
//              as long as that costs less. So three that are done do not wait long for a fourth,
//              but a fourth that comes late waits for the three. An overdue worker is not waited
//              for.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "asup/ps/pace/options.h"

namespace asup::ps::pace {

inline constexpr double kForever = std::numeric_limits<double>::infinity();
inline constexpr int kAll = std::numeric_limits<int>::max();

// A worker's gradient of one lease, with what the worker says about it.
struct Push {
  int worker = 0;
  std::uint64_t number = 0;                  // of this worker's pushes, 0 first
  std::uint64_t version = 0;                 // of the parameters it was computed on
  std::uint64_t samples = 0;                 // of its lease; without leases, ignored
  std::uint64_t of_step = 0;                 // samples of the step that its lease is of; 0: B
  std::optional<std::uint64_t> described{};  // its samples, without leases, if its worker says so
  double loss_sum = 0;                       // of its samples
  double seconds_working = 0;                // from its release to this push, by the worker's clock
  double seconds_waiting = 0;                // from its push before to its release
  std::uint64_t non_finite = 0;              // infinities and NaN among its values
};

// How late a push is.
struct Staleness {
  std::uint64_t versions = 0;  // updates since the parameters it was computed on
  double steps = 0;            // samples of those updates / B
  bool operator==(const Staleness&) const = default;
};

// Version `version` of the parameters is made of the one before: g = sum of weight * gradient over
// the parts, whose weights sum to 1, then one step of the rule with the learning rates times
// `gain`, or, where it is only a share of a step, that part of one (kernels/step_power.h).
struct Update {
  struct Part {
    int worker = 0;
    std::uint64_t number = 0;
    double weight = 0;
    Staleness staleness;
    bool operator==(const Part&) const = default;
  };
  std::uint64_t version = 0;
  std::vector<Part> parts;  // ascending by worker, then by number
  double gain = 0;          // samples / B, and less where late pushes count for less
  std::uint64_t samples = 0;
  double share = 1;  // of a step: its samples / those of the step that they are of. Where workers
                     // describe their batches, a step is the last one of each of them.
  bool operator==(const Update&) const = default;
};

struct Drop {
  enum class Why { late, non_finite, lost };  // lost: its worker
  int worker = 0;
  std::uint64_t number = 0;
  Why why = Why::late;
  bool operator==(const Drop&) const = default;
};

// The worker may go on, with the parameters as they are at this place among the commands.
struct Go {
  int worker = 0;
  bool operator==(const Go&) const = default;
};

using Command = std::variant<Update, Drop, Go>;
using Commands = std::vector<Command>;

struct Bounds {
  int gather = 1;               // pushes
  int spare = 0;                // workers
  double staleness = kForever;  // pushes
  double keep = kForever;       // steps
  double patience = kForever;   // seconds
  bool operator==(const Bounds&) const = default;
};

// Whether some of those who are to come at these times, whose order it changes, are worth waiting
// for, where so many wait.
bool is_worth_waiting(std::size_t here, double now, std::span<double> to_come, double patience);

// Those of a fixed pace of so many workers, and those that an adaptive one starts with.
Bounds bounds_of(const Options& options, int workers);

class Pacer {
 public:
  // `batch`: the samples of a step. `version`: that of the parameters at the start.
  Pacer(const Bounds& bounds, double batch, bool stale_lr = false,
        NonFinite non_finite = NonFinite::skip, std::uint64_t version = 0);

  // It wants to go on: it is new here, or was resting and there is work again.
  Commands arrived(int worker, double now);
  // All of it is there. needs: refusal() has nothing to say. Throws JobFailed where it holds values
  // that are not finite and the policy is fatal.
  Commands pushed(const Push& push, double now);
  // It was told to go, but there is no work for it.
  Commands rests(int worker, double now);
  // Its pushes that are not yet part of an update are dropped. `redo`: so many leases of it must be
  // part of the next update, so that other workers have to do them first.
  Commands left(int worker, double now, int redo = 0);
  // Patience may be over. See wake().
  Commands tick(double now);
  Commands set(const Bounds& bounds, double now);

  // This worker's push, of what it was just told to go on with, is expected at `when` and overdue
  // at `overdue`. Without this, it is waited for.
  void expect(int worker, double when, double overdue);

  // When to call tick() if no event comes first.
  std::optional<double> wake() const;

  // What is wrong with a push that cannot be from a worker which does as it was told.
  std::optional<std::string> refusal(const Push& push) const;

  const Bounds& bounds() const { return bounds_; }
  std::uint64_t version() const { return version_; }
  std::uint64_t samples_applied() const { return applied_; }
  std::size_t pending() const { return pending_.size(); }  // pushes that wait for an update
  bool works(int worker) const;

 private:
  enum class State { away, working, held, resting };
  struct Worker {
    State state = State::away;
    std::uint64_t next_push = 0;
    std::uint64_t version = 0;                 // of its parameters
    std::uint64_t applied = 0;                 // samples, when it got them
    std::optional<std::uint64_t> described{};  // of its last push
    double keep = kForever;                    // as the bounds were when it got them
    std::uint64_t clock = 0;                   // pushes
    std::optional<double> expected;
    double overdue = kForever;
  };
  struct Pending {
    Push push;
    std::uint64_t applied = 0;  // samples, when its worker got the parameters
    bool skipped = false;       // dropped already; its worker waits for the update all the same
  };

  Worker& known(int worker, State state, const char* event);
  Commands settle(double now, Commands commands = {});
  bool is_due(double now) const;
  std::optional<double> waits_until(double now) const;
  // The least of those who work or are held; none where nobody does.
  std::optional<std::uint64_t> slowest_clock() const;
  void set_clock(Worker& arriving);
  void update(Commands& commands);
  double share_of(const std::vector<Pending>& parts) const;
  double described_step() const;
  void let_go(Commands& commands);
  void go(int id, Worker& worker, Commands& commands);
  bool has_pending(int worker) const;
  std::size_t count(State state) const;

  // Constant after construction.
  const double batch_;
  const bool stale_lr_;
  const NonFinite non_finite_;

  Bounds bounds_;
  std::uint64_t version_;
  std::uint64_t applied_ = 0;
  int owed_ = 0;  // leases of lost workers that the next update waits for
  std::map<int, Worker> workers_;
  std::vector<Pending> pending_;
  double now_ = 0;
};

}  // namespace asup::ps::pace
