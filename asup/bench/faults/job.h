// A job whose workers are killed, halted and cut off while it runs: what it is, where it leaves
// what, and how it is started. Functions of values, but for remove_faulty_job(); safe from any
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "asup/bench/compare/virtual_hosts.h"
#include "asup/bench/faults/ways.h"

namespace asup::bench {

struct FaultyJob {
  FaultyWay way{};
  std::string model = "mlp";
  int workers = 4;
  std::int64_t steps = 300;
  std::uint64_t seed = 1;               // of the training
  std::uint64_t moments = 1;            // and of what happens to it
  std::string folder{};                 // of all that it leaves
  const VirtualHosts* hosts = nullptr;  // none: all on this one
  bool is_slow = true;  // a sample has a time of its own, well above its computation
  int test_every = 40, save_every = 20;  // steps

  std::string run_folder() const { return folder + "/run"; }
  std::string log() const { return folder + "/log"; }
  std::string resumed_log() const { return folder + "/resumed.log"; }
  std::string join_log(std::size_t newcomer) const;
  std::string times_folder() const { return folder + "/times"; }
  std::string program_folder() const { return folder + "/program"; }  // program.h
  // In the environment of all its processes.
  std::string mark() const;
  // Whether a job of so many workers can be trained so; "" if so, else why not.
  std::string why_not() const;
};

// Throws BadInput.
void check_model(const std::string& model);

std::vector<std::string> command_of(const FaultyJob& job);
std::vector<std::string> variables_of(const FaultyJob& job);
// One more worker for it.
std::vector<std::string> join_command_of(const FaultyJob& job);
// Where it has ended.
std::vector<std::string> resume_command_of(const FaultyJob& job);
// The same training in which nothing happens, by all-reduce.
std::vector<std::string> undisturbed_command_of(const FaultyJob& job, int workers);

// Makes its folders, empty, in place of what is there; or does away with them.
void make_faulty_job_folders(const FaultyJob& job);
void remove_faulty_job(const FaultyJob& job);

}  // namespace asup::bench
