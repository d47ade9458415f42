// Virtual workers that drive a Scheduler by a clock that is only reckoned: they do as they are
// told, take as long as the scene says, and may be lost. Checks on the way that what it decides
// makes sense.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "asup/ps/pace/scheduler.h"

namespace asup::ps::pace {

class Cluster {
 public:
  // Seconds that a worker takes for a lease of `length` even ones that it begins at `now`.
  using Scene = std::function<double(int worker, double length, double now)>;

  Cluster(const SchedulerOptions& options, Scene scene);

  // Everybody arrives, and all goes on until nobody has anything to do, or until `until`.
  void run(double until = kForever);
  // An event of its own in the middle of a run.
  void at(double time, std::function<void(Cluster&)> action);
  void lose(int worker);
  void join(int worker);

  Scheduler& head() { return head_; }
  double now() const { return now_; }
  std::size_t ended() const { return ended_; }              // workers that were told so
  std::size_t sync_points() const { return sync_points_; }  // that were passed by all
  // How often each sample of a step was applied; dropped ones count in `dropped`.
  const std::map<std::uint64_t, std::vector<int>>& applied() const { return applied_; }
  std::uint64_t samples_applied() const { return samples_; }
  double lr_moved() const { return lr_moved_; }  // learning rates of all updates, summed up
  // Samples that were applied, and their summed staleness in steps, from one time to another.
  struct Span {
    double samples = 0, staleness = 0;
  };
  Span span(double from, double to) const;

  // May change what a push says.
  std::function<void(Push&)> on_push;
  std::function<void(const Decision&)> on_decision;
  std::function<double(std::uint64_t samples)> loss;  // of a sample, after so many were applied

 private:
  struct Worker {
    bool is_here = false;
    double done = kForever;  // when it pushes
    std::uint64_t number = 0, version = 0;
    std::uint64_t applied = 0;  // samples, at its release
    std::optional<Lease> lease;
    std::map<std::uint64_t, std::optional<Lease>> pushes;  // not yet applied or dropped
    bool is_at_sync_point = false;
  };
  struct Applied {
    double time, samples, staleness;
  };

  void carry_out(const Decisions& decisions);
  void carry_out(const Update& update);
  void carry_out(const Drop& drop);
  void carry_out(const Clearance& release);
  bool step(double until);
  void pass_sync_point();

  const SchedulerOptions options_;
  const Scene scene_;
  Scheduler head_;
  std::vector<Worker> workers_;
  std::multimap<double, std::function<void(Cluster&)>> actions_;
  double now_ = 0;
  std::uint64_t version_ = 0, samples_ = 0;
  std::size_t ended_ = 0, sync_points_ = 0;
  double lr_moved_ = 0;
  std::map<std::uint64_t, std::vector<int>> applied_;
  std::vector<Applied> history_;
};

}  // namespace asup::ps::pace
