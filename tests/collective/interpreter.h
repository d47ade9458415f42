// Runs the plans of all ranks on numbers, in an order of events drawn at random: a second opinion
// on what the verifier says, which shares no code with it.
//
// Ranks start and end when they like; before its start and after its end a rank's memory is
// garbage. Messages wait in queues of random capacity, none included. Sums are modulo 2^64 over
// random inputs, and `finish` multiplies by an odd number, so that a contribution lost, doubled or
// misplaced shows.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "asup/collective/plan/plan.h"

namespace asup::collective::testing {

// Empty when every output came out right; else what went wrong.
std::string interpret(const Spec& spec, const std::vector<Plan>& plans, std::mt19937_64& random);

}  // namespace asup::collective::testing
