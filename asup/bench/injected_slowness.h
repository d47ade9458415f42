// Makes workers slow on purpose, by real sleeps, for experiments on one machine whose cores would
// otherwise be the limit (`asup bench stragglers`): with a time for each sample, well above what
// computing takes, workers are as fast as they are told to be. As on a device that is so fast, a
// third of a batch's time is forward, and the rest passes as backward comes to one gradient after
// the other (backward_course.h), so that gradients leave, and parameters come, beside it.
//
//   ASUP_INJECTED_SLOWNESS="sample_ms=2 slow=3:4:0.3:0.6 pause=1:50:20"
//
//   sample_ms=T      a sample takes at least T milliseconds
//   layer_ms=T       of a model that is spread over workers, a layer takes T milliseconds more for
//                    each micro-batch
//   slow=R:F[:A:B]   rank R takes F times as long, from share A to share B of the run
//   halt=R:S:C[:A:B] rank R is halted from outside for S milliseconds and goes on for C, by turns,
//                    from share A to share B of the run
//   pause=R:N:K      rank R stands still, once in N samples' batches at random, for K batches' time
//
// ASUP_STEP_TIMES=FOLDER has workers write down there when their batches begin (step_times.h).
//
// Used from the thread that trains, and from the one that runs its backward.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "asup/base/clock.h"
#include "asup/bench/backward_course.h"
#include "asup/bench/injected_pauses.h"
#include "asup/bench/step_times.h"
#include "asup/net/membership/join_options.h"
#include "asup/train/step_hooks.h"

namespace asup::bench {

class InjectedSlowness : public train::StepHooks {
 public:
  // Throws BadInput that says which word is wrong.
  static InjectedSlowness from(const net::Environment& environment, int rank, std::uint64_t seed);

  // None: nothing is slowed down.
  InjectedSlowness() = default;

  // A batch has a time at which its forward should have ended, and each of its gradients be there:
  // each call sleeps until then, but for what this worker waited for others, so that what computing
  // itself takes and what a sleep is too long come out of the sleeps that follow.
  // `progress`: the share of the run that is done.
  bool watch_gradients(const std::vector<std::int64_t>& elements) override;
  void before_batch(std::size_t samples, double progress) override;
  void before_backward(std::size_t samples, double waited) override;
  void before_gradient(std::size_t parameter, double waited) override;
  void after_gradient(std::size_t parameter) override;
  void after_batch(std::size_t samples, double waited) override;
  bool watches_layers() const override { return layer_seconds_ > 0; }
  void in_layer(bool backward) override;

  // Of a batch, without pauses.
  double seconds(std::size_t samples, double progress) const;

 private:
  struct Slow {
    double factor = 1, from = 0, to = 1;
  };
  struct Halts {
    double halted_seconds = 0, running_seconds = 0, from = 0, to = 1;
  };
  void parse(const std::string& word, int rank);
  double factor(double progress) const;
  void halt_by_turns(double progress);
  void work_until(double seconds, double waited);

  StepTimes times_;
  double sample_seconds_ = 0, layer_seconds_ = 0;
  std::vector<Slow> slow_;
  double pause_chance_ = 0, pause_batches_ = 0;
  std::optional<Halts> halts_;
  std::unique_ptr<InjectedPauses> pauses_;  // while it is halted by turns
  std::mt19937_64 random_;

  BackwardCourse course_;
  double progress_ = 0;         // of the run, before the batch
  Clock::time_point began_;     // the batch; later by what it was halted since
  double batch_seconds_ = 0;    // that it should take
  double sample_in_batch_ = 0;  // seconds of them
  double portion_began_ = 0;    // the portion that is in backward, in seconds of the batch
  double portion_seconds_ = 0;  // that it should take
};

}  // namespace asup::bench
