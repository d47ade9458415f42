// A program with asup::distribute(), as users write them, whose workers are killed: gradients are
// such that a step's average tells whose it is, and each worker checks that it is of itself and of
// whoever is left. `asup bench faults` starts itself again as this program.
#pragma once

#include <cstdint>
#include <string>

namespace asup::bench {

// That a float's bits tell apart.
constexpr int kMostOfProgram = 8;
// The folder for what the program has to tell; where it is set, this process is the program.
constexpr const char* kProgramVariable = "FAULTS_BENCH_PROGRAM";

// In a job. The exit status.
int run_faulty_program(const std::string& folder, std::int64_t steps);

// What its workers have left in the folder, once it has ended.
struct ProgramEnds {
  int workers = 0;        // that came to the end
  bool one_model = true;  // all with the same
  bool wrong = false;     // some step moved the model by something else than an average
  bool all_steps = true;
};
ProgramEnds read_program_ends(const std::string& folder, std::int64_t steps);

}  // namespace asup::bench
