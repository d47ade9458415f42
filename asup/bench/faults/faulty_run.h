// Runs a job, has things happen to it, and says what came of it beside what its way promises. Used
// from the thread of the runner.
#pragma once

#include <optional>

#include "asup/bench/faults/log.h"
#include "asup/bench/faults/mischief.h"

namespace asup::bench {

struct FaultyJobEnd {
  FaultCounts counts{};
  bool hung = false;
  std::string failed{};         // it, or a newcomer, ended otherwise than it should: how
  std::string wrong{};          // what has come out of it is not what should
  std::int64_t lost_steps = 0;  // that its log has not, or not once; and that should not be again
  std::int64_t again = 0;       // steps that were made again
  std::vector<double> recovery_seconds{};

  bool is_well() const { return !hung && failed.empty() && wrong.empty() && lost_steps == 0; }
};

// What a job comes to in which nothing happens.
struct Undisturbed {
  LoggedLosses of_steps, of_tests;
};
// By one process. Sets the seed of the training to one by which many agree with one: where a sum's
// rounding decides on which side of its kink a ReLU is, they do not. Throws Error where there is
// none, or a job fails.
Undisturbed run_undisturbed(FaultyJob& job, ProgramRunner& runner);

// `hosts`: those that the job names, or none.
FaultyJobEnd run_faulty_job(const FaultyJob& job, const Undisturbed& undisturbed,
                            ProgramRunner& runner, VirtualHosts* hosts);

}  // namespace asup::bench
