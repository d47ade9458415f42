// One call of a collective, drawn at random and the same on all ranks, to be run for real and held
// against a reference in double precision.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "asup/collective/communicator.h"

namespace asup::collective::testing {

struct Sample {
  const Algorithm* algorithm;
  Spec spec;    // but for what the communicator adds: whether memory is shared, hosts
  bool shared;  // buffers are from Communicator::allocate
  ReduceOp op;
  unsigned seed;  // of the inputs
};

// Counts are none, one, prime, fewer than ranks, or any up to some thousands.
Sample draw_sample(const Algorithm& algorithm, int ranks, bool can_share, std::mt19937& random);

std::string describe(const Sample& sample);

// Runs it, with gtest assertions that the output is right, that what is only read stays as it was,
// and, where all ranks get the same, that they get the same bits.
void run_sample(Communicator& communicator, const Sample& sample);

// Runs some samples of every algorithm in the table, the same on all ranks; those that need memory
// in common only if `can_share`.
void run_every_algorithm(Communicator& communicator, bool can_share);

}  // namespace asup::collective::testing
