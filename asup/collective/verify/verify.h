// Proves that the plans of all ranks together do what the Spec asks, or names a step that shows
// they do not.
//
// A symbolic run over all ranks and lanes, on ranges rather than elements. It proves that
//   - every element of every output ends with the right contributions: each rank's exactly once in
//     a reduction, the one right source's otherwise; `finish` is on the step that completes an
//     element, once; all ranks add an element up in the same order, so that they get the same bits;
//   - every send meets a receive of its length, first come first served for each (sender, receiver,
//     lane), and no message is left over;
//   - no rank waits for ever, even on links that buffer nothing, where a round ends only when all
//     its messages have met their counterparts;
//   - after a barrier, every rank has heard from every other, through however many hands;
//   - ranges lie inside their areas, an input that is not also the output is never written, nothing
//     is read before it is written, and a round holds only messages or only memory steps;
//   - no two accesses race: not within a round, not between lanes, and not between ranks. What a
//     rank does in another's memory is ordered by messages after that rank's start, before its end,
//     and against every conflicting access; and only what a sender did before it sent counts as
//     ordered before what the receiver does once it has received, since links may buffer.
//
// Time and memory grow with the number of steps and of pieces that ranges are cut into, not of
// elements; where ranks reach into each other's memory, each message costs n more.
//
// (+) is taken to be commutative to the bit, not associative. Pure functions; safe from any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "asup/collective/plan/plan.h"

namespace asup::collective {

// Where a proof fails. A position that does not apply is -1, as when an output is never written.
struct Flaw {
  int rank = -1, lane = -1, round = -1, step = -1;
  AreaRange range;  // of `rank`'s memory, or of the peer's where `what` says so
  std::string what;
};

std::string describe(const Flaw& flaw);

// `plans` by rank. A send or a recv is verified as a pair: ranks is 2, root the peer, and the other
// rank's plan its counterpart. Throws BadInput where the Spec itself is wrong.
std::optional<Flaw> verify(const Spec& spec, const std::vector<Plan>& plans);

// Of the plans that `algorithm` makes.
std::optional<Flaw> verify(const Algorithm& algorithm, const Spec& spec);

}  // namespace asup::collective
