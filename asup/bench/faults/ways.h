// Ways of training that `asup bench faults` disturbs, and what each is to do when a worker is lost:
// a row each. Pure; safe from any thread.
#pragma once

#include <string>
#include <vector>

namespace asup::bench {

// What the others do.
enum class AfterLoss {
  from_memory,      // go on together, and no step that was made is lost or made again
  from_checkpoint,  // go back to the last checkpoint
  own_pace,         // go on, each with its own steps, and do the lost one's samples
  ends              // the run ends and names the lost one; it is resumed
};
std::string word_of(AfterLoss after);

struct FaultyWay {
  std::string name;
  std::string flags;  // of asup train; of a program: variables, NAME=value
  AfterLoss after = AfterLoss::from_memory;
  // Losses are those of one process, whoever computes them. Of a program: each average is that of
  // the workers that were there.
  bool follows_one = false;
  int servers = 0;            // that are started for it
  int group = 1;              // workers come in groups of so many
  bool mlp_only = false;      // other models cannot be trained so
  bool loses_server = false;  // in place of a worker
  bool is_program = false;    // with distribute(), under `asup run`

  // Newcomers are let in.
  bool takes_in() const { return after != AfterLoss::ends && !is_program; }
  // There is a row in the log for each step, as soon as it is made.
  bool logs_steps() const {
    return (after == AfterLoss::from_memory || after == AfterLoss::from_checkpoint) && !is_program;
  }
};

// In an order in which neighbours have little in common.
const std::vector<FaultyWay>& faulty_ways();
std::vector<std::string> names_of_faulty_ways();
// All, or those of these names. Throws BadInput.
std::vector<FaultyWay> chosen_faulty_ways(const std::vector<std::string>& names);

}  // namespace asup::bench
