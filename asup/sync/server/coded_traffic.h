// What a worker's gradients lose in the code in which they travel to the servers, and what it needs
// to go on from there: as many exchanges, the same losses, the weights that servers know it to
// have. One thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "asup/kernels/code.h"
#include "asup/sync/compressors/compressor.h"
#include "asup/sync/gradients/buckets.h"
#include "asup/sync/gradients/residuals.h"
#include "asup/sync/model/tensors.h"
#include "asup/sync/replica.h"

namespace asup::sync {

// Which weights' gradients are large enough for a code (with_coded()); null where it is none.
inline std::function<bool(const torch::Tensor&)> those_in(kernels::Code code) {
  return code == kernels::Code::none ? nullptr : is_large_weight;
}

class CodedTraffic {
 public:
  // With feedback, what is lost is added to the gradients of the next step.
  CodedTraffic(kernels::Code code, bool feedback, const Buckets& buckets,
               const std::vector<NamedTensor>& shared);

  // Before the first bucket of a step, whose gradients are means over so many samples.
  void begin_step(std::uint64_t samples);
  void end_step(bool applied);

  kernels::Encoding encoding(std::size_t bucket) const;
  // Of gradients that travel in the code: how many it makes infinite or not a number.
  std::uint64_t count_made_infinite(const float* data, std::size_t count) const;

  // `known`: the weights that servers know this worker to have, as views.
  ReplicaState state(const std::vector<NamedTensor>& known) const;
  // As many workers have their own unit and known weights again, others the unit of rank 0, and
  // what servers gave them.
  void restore(const ReplicaState& state, const std::vector<NamedTensor>& known);

 private:
  const kernels::Code code_;
  std::optional<Residuals> residuals_;
  std::uint64_t exchanges_ = 0;  // so far, by which a code draws at random
};

}  // namespace asup::sync
