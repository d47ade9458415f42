// Gathers what communicators of several ranks executed, and holds it against the verifier.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "asup/collective/execute/trace.h"

namespace asup::testing {

class TraceBook {
 public:
  explicit TraceBook(int ranks) : ranks_(ranks) {}

  // For the communicator of `rank`.
  collective::TraceSink sink(int rank);

  // Proves, with gtest assertions, that every call executed each step of its plan exactly once, a
  // lane's rounds in order, and that the plans of all ranks together are ones the verifier accepts.
  // Returns how many calls that was.
  int expect_verified();

 private:
  struct Executed {
    collective::Spec spec;
    collective::Plan plan;
    std::vector<collective::TraceEvent> steps;
    bool ended = false;
  };
  using CallId = std::pair<std::uint64_t, std::uint64_t>;  // communicator, sequence

  static void expect_every_step_once(const Executed& executed);

  const int ranks_;
  std::mutex mutex_;
  std::map<CallId, std::map<int, Executed>> calls_;  // by rank
};

}  // namespace asup::testing
