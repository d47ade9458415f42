// Proves that the schedules of all ranks do what they should, or names the first flaw.
//
// Proven of each stage and micro-batch:
//   - forward exactly once, and backward exactly once: whole, or input and weight; on the rank that
//     has the stage;
//   - each with what it needs: the stage before has its output here, or it was received; backward
//     after the forward, and with the gradient from the stage behind; weight after input;
//   - exactly the messages that these need, each after what it sends, between the right ranks, and
//     received in the order in which they were sent, of each kind between two ranks.
// Proven of the whole, by a run of all ranks on links that buffer nothing: a message passes when
// its sender has come to the send and its receiver to the recv; the receiver waits there, the
// sender does not (Sending::beside), or stays until all messages that follow each other without
// computation in between are through (Sending::blocking, stricter than what the executor does). All
// ranks come to their ends. On the way no rank holds more activations than it may.
//
// Pure; safe from any thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "asup/parallel/schedule/schedule.h"

namespace asup::parallel {

struct Flaw {
  int rank = 0;
  int position = 0;  // of the action in the rank's schedule; its length: at the end
  std::string what;
};

// "rank 2, action 14, backward of stage 2, micro-batch 3: …"
std::string describe(const Flaw& flaw, const std::vector<Schedule>& schedules);

enum class Sending : std::uint8_t { beside, blocking };

// `activations`: how many each rank may hold; empty: any number.
std::optional<Flaw> verify(const PipelineSpec& spec, const std::vector<Schedule>& schedules,
                           std::span<const int> activations = {},
                           Sending sending = Sending::beside);

// Throws Error that describes the flaw where there is one; what runs is what was proven.
// needs: require_valid()
std::vector<Schedule> verified_schedules(const PipelineSchedule& schedule,
                                         const PipelineSpec& spec);

}  // namespace asup::parallel
