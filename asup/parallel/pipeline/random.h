// What a stage draws at random (dropout) when it computes a micro-batch, and when it computes it
// again. Used from the thread that trains.
//
// torch's generator is one for the process. So ranks whose stages draw from it cannot be threads of
// one process: each would draw from the other's numbers.
#pragma once

#include <torch/torch.h>

#include <cstdint>

#include "asup/collective/communicator.h"

namespace asup::parallel {

// By these alone, whatever was drawn before, and on whichever rank.
std::uint64_t seed_of_forward(std::uint64_t seed, std::int64_t step, int stage, int micro_batch);

// Of ranks that have the same stages, each draws by its own; `data`: null, or those ranks.
std::uint64_t seed_of_replica(std::uint64_t seed, const Communicator* data);

// While it lives, torch's generator of the device draws by the seed; then it goes on where it was.
class SeededScope {
 public:
  SeededScope(torch::Device device, std::uint64_t seed);
  ~SeededScope();
  SeededScope(const SeededScope&) = delete;
  SeededScope& operator=(const SeededScope&) = delete;

 private:
  at::Generator generator_;
  torch::Tensor before_;
};

// The right of a pipeline to torch's generator: one in a process at a time. Throws BadInput for a
// second.
class GeneratorClaim {
 public:
  GeneratorClaim();
  ~GeneratorClaim();
  GeneratorClaim(const GeneratorClaim&) = delete;
  GeneratorClaim& operator=(const GeneratorClaim&) = delete;
};

}  // namespace asup::parallel
