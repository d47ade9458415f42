// A job of `asup train` whose workers are killed and halted while it runs. Linux alone; used from
// the thread of the runner.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "asup/base/clock.h"
#include "asup/bench/compare/program_runner.h"
#include "asup/bench/faults/log.h"

namespace asup::bench {

struct FaultyWay {
  std::string name, flags;
  bool follows_one = false;  // losses are those of one process, whoever computes them
  bool logs_steps = false;   // a row for each step, as soon as it is made
};

struct FaultyJob {
  FaultyWay way{};
  int workers = 4, steps = 300;
  std::uint64_t seed = 1;     // of the training
  std::uint64_t moments = 1;  // and of what happens to it
  std::string folder{};       // of the run, and beside it the logs
};

// What came of one.
struct FaultyJobEnd {
  int kills = 0, halts = 0, joins = 0;
  bool hung = false;
  int status = 0;
  std::int64_t lost_steps = 0;  // that its log has not, or not once (log.h)
  bool differs = false;         // from the job without faults

  bool is_well() const { return !hung && status == 0 && lost_steps == 0 && !differs; }
  std::vector<double>
      recovery_seconds{};  // from a kill to the end of the next step, where it is seen
};

// Of a job in which nothing happens; nothing where it fails.
std::optional<LoggedLosses> losses_of_undisturbed(const FaultyJob& job, ProgramRunner& runner);

// Its folder and logs, before another takes their place or when they are of no use.
void remove_faulty_job(const FaultyJob& job);

FaultyJobEnd run_faulty_job(const FaultyJob& job, const LoggedLosses& undisturbed,
                            ProgramRunner& runner);

}  // namespace asup::bench
