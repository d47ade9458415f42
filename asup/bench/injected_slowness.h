// Makes workers slow on purpose, by real sleeps, for experiments on one machine whose cores would
// otherwise be the limit (`asup bench stragglers`): with a time for each sample, well above what
// computing takes, workers are as fast as they are told to be.
//
//   ASUP_INJECTED_SLOWNESS="sample_ms=2 slow=3:4:0.3:0.6 pause=1:50:20"
//
//   sample_ms=T      a sample takes at least T milliseconds
//   slow=R:F[:A:B]   rank R takes F times as long, from share A to share B of the run
//   halt=R:S:C[:A:B] rank R is halted from outside for S milliseconds and goes on for C, by turns,
//                    from share A to share B of the run
//   pause=R:N:K      rank R stands still, once in N samples' batches at random, for K batches' time
//
// Used from the thread that trains.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "asup/base/clock.h"
#include "asup/bench/injected_pauses.h"
#include "asup/net/membership/join_options.h"
#include "asup/train/step_hooks.h"

namespace asup::bench {

class InjectedSlowness : public train::StepHooks {
 public:
  // Throws BadInput that says which word is wrong.
  static InjectedSlowness from(const net::Environment& environment, int rank, std::uint64_t seed);

  // None: nothing is slowed down.
  InjectedSlowness() = default;

  // Before a batch: sleeps as long as the batch should take, but for the time that computing took
  // for the batch before. The sleep comes first, since gradients leave while they are computed. The
  // first batch, with all that is done for the first time, tells nothing of the second.
  // `progress`: the share of the run that is done.
  void before_batch(std::size_t samples, double progress) override;
  void after_batch(std::size_t samples, double waited) override;

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
  void sleep(double seconds) const;

  double sample_seconds_ = 0;
  std::vector<Slow> slow_;
  double pause_chance_ = 0, pause_batches_ = 0;
  std::optional<Halts> halts_;
  std::unique_ptr<InjectedPauses> pauses_;  // while it is halted by turns
  std::mt19937_64 random_;
  Clock::time_point computes_since_;
  double compute_seconds_ = 0;  // of a sample
  bool is_first_ = true;
};

}  // namespace asup::bench
