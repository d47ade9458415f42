// Decides for the head: joins the pacer (when), the allocator (which samples) and the controller
// (how strict). The server tells it what happens and carries out what it decides.
//
// Every event returns decisions, to be carried out in their order on all servers. Times are seconds
// on any clock that does not go back. The same events at the same times give the same decisions.
// One thread at a time.
//
//   Scheduler scheduler({.workers = 4, .pace = {.kind = Kind::ssp}, .work = work});
//   for each worker that has joined:  carry_out(scheduler.arrived(worker, now));
//   when all servers have a push:     carry_out(scheduler.pushed(push, now));
//   when it is through a sync point:  carry_out(scheduler.passed_sync_point(worker, met, now));
//   when a worker is lost:            carry_out(scheduler.left(worker, now));
//   when wake() has come:             carry_out(scheduler.tick(now));
//
// Nothing is released before all workers have arrived or left. After that, a worker may leave and
// arrive again at any time; its pushes are then numbered from 0 again.
//
// A sync point is passed when all who were sent there, and are still here, ended it together.
// Where one is lost there, some may have ended it with the lost one and others without: they are
// sent again.
//
// A worker is released when its push has been applied or dropped, with one exception: in bsp, where
// a worker was lost, another is released once more in the same step to do what was lost, and its
// own push of that step must be kept until the update.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "asup/ps/pace/choice.h"
#include "asup/ps/pace/controller.h"
#include "asup/ps/pace/pacer.h"
#include "asup/ps/pace/sample_allocator.h"

namespace asup::ps::pace {

// Send the worker the parameters as they are now, and tell it what to do.
struct Clearance {
  enum class To {
    work,        // on `lease`, or without leases on whatever it likes
    sync_point,  // with the others, all at the same version; then passed_sync_point()
    end          // all work is done
  };
  int worker = 0;
  To to = To::work;
  std::optional<Lease> lease{};
  std::uint64_t sync_point = 0;       // to a sync point: steps that are done,
  std::optional<Elsewhere> leaves{};  // and how to go on from there, if not with the servers
  std::uint64_t version = 0;          // of the parameters
  bool operator==(const Clearance&) const = default;
};

using Decision = std::variant<Update, Drop, Clearance>;
using Decisions = std::vector<Decision>;

struct SchedulerOptions {
  int workers = 1;
  Options pace;
  // None: users' own programs with their own loaders. A push then counts as B / n, without backup
  // workers in n, and there are neither sync points nor an end.
  std::optional<Workload> work;
  std::uint64_t version = 0;  // of the parameters at the start
  double momentum = 0.9;      // of the rule that applies gradients
};

struct WorkerFigures {
  int worker = 0;
  bool is_here = false;
  std::uint64_t pushes = 0, applied = 0, dropped_late = 0, dropped_non_finite = 0;
  std::uint64_t samples = 0;  // applied; without leases, pushes applied
  double mean_staleness = 0;  // in versions
  std::uint64_t worst_staleness = 0;
  double mean_staleness_steps = 0, worst_staleness_steps = 0;
  double seconds_working = 0, seconds_waiting = 0;  // by the worker's clock
};

struct PaceReport {
  std::vector<WorkerFigures> workers;  // ascending
  std::uint64_t updates = 0;
  std::uint64_t samples = 0;  // applied
  // Of late or non-finite pushes: they count as done. Backup workers' late ones are done again.
  std::uint64_t samples_dropped = 0;
  std::uint64_t non_finite_pushes = 0;
  double mean_staleness = 0, mean_staleness_steps = 0;  // of a sample
  std::uint64_t worst_staleness = 0;
  double worst_staleness_steps = 0;
  std::vector<Choice> choices;  // of the controller
};

class Scheduler {
 public:
  // Throws BadInput where the options make no sense.
  explicit Scheduler(const SchedulerOptions& options);

  Decisions arrived(int worker, double now);
  // needs: no refusal(). Throws JobFailed as Pacer::pushed() does.
  Decisions pushed(const Push& push, double now);
  // `met`: the workers it ended the sync point with, itself included.
  Decisions passed_sync_point(int worker, const std::set<int>& met, double now);
  Decisions left(int worker, double now);
  // A sync point is to be at the end of the step that samples are leased from now. Without leases,
  // nothing.
  Decisions sync_point_soon(double now);
  Decisions tick(double now);
  // What one server alone would have taken for the last update.
  void updated(double seconds);

  // When to call tick() if no event comes first. Only an adaptive pace needs it: when patience is
  // over, and to look for a better pace, at once, but after what was decided is carried out. Nobody
  // waits for that look.
  std::optional<double> wake() const;

  // What is wrong with a push that cannot be from a worker which does as it was told.
  std::optional<std::string> refusal(const Push& push) const;

  std::uint64_t version() const { return version_; }
  bool is_at_sync_point() const { return !at_sync_point_.empty(); }  // some worker is
  bool has_ended() const { return has_ended_; }
  const Bounds& bounds() const { return pacer_.bounds(); }
  // Step that samples are leased from now; without leases, samples applied / B.
  std::uint64_t step() const;
  PaceReport report() const;

 private:
  // What is known of one worker, also after it has left.
  struct Account {
    struct InFlight {
      std::uint64_t samples = 0;
      double loss = 0;  // mean of a sample
    };
    WorkerFigures figures;
    double staleness = 0, staleness_steps = 0;  // summed over pushes that were applied
    double weighed_staleness = 0, weighed_staleness_steps = 0;  // and over their samples
    Timing timing;
    double released = 0;                       // when it was last
    std::map<std::uint64_t, InFlight> pushes;  // not yet applied or dropped, by number
  };

  Decisions finish();
  void post(Commands commands);
  Push as_counted(const Push& push) const;
  void carry_out(const Update& update);
  void carry_out(const Drop& drop);
  void carry_out(const Go& go);
  bool wake_one();
  void go_to_sync_point();
  void send_to_sync_point(int worker);
  void end_sync_point();
  void go_to_end();
  void expect(int worker);
  void expect_again(int pushed);
  const Timing* example_for(int worker) const;
  bool is_look_due() const;
  void adapt();
  Situation situation() const;
  Speeds speeds() const;
  double even_lease() const;
  Account& account(int worker);
  const Account& account(int worker) const;

  const SchedulerOptions options_;
  Pacer pacer_;
  std::optional<SampleAllocator> allocator_;
  std::optional<Controller> controller_;
  std::vector<Account> accounts_;  // by worker
  std::set<int> missing_;          // not yet arrived at the start
  std::set<int> here_;
  std::set<int> resting_;              // here, but there is no lease for them now
  std::set<int> at_sync_point_;        // sent to the sync point, and still here
  std::map<int, std::set<int>> back_;  // of those, who is back, and with whom
  bool has_ended_ = false;
  std::optional<Elsewhere> leaves_;    // from the next sync point on
  double update_seconds_ = 0;          // of late
  std::size_t pushes_since_look_ = 0;  // of the controller
  std::uint64_t version_;              // after the updates that are decided so far
  double now_ = 0;
  std::deque<Command> commands_;  // not yet carried out
  Decisions decisions_;           // of the event that is being handled
};

}  // namespace asup::ps::pace
