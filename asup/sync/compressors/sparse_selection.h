// Which numbers of a gradient travel where only the largest do: what does not travel adds up from
// step to step until it is large enough. With a momentum, what adds up is what an optimizer with
// momentum would have applied (sparse_gradients.h).
//
// How large a number must be to travel is found in a sample.
//
// Used from one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "asup/kernels/sparse.h"
#include "asup/sync/compressors/taken_momentum.h"

namespace asup::sync {

class SparseSelection {
 public:
  explicit SparseSelection(const std::optional<TakenMomentum>& momentum);

  // A gradient, and what is kept of it: the sum, and where there is one, the momentum.
  struct Numbers {
    float* gradient;
    kernels::Kept momentum, sum;
    std::size_t count, most;  // of them, and that travel
  };
  // Adds the gradient to what is kept, and leaves zeros in it. Where the largest of the sums are,
  // ascending, until the next call. `exchange`: by its number the sample is taken elsewhere.
  std::span<const std::uint32_t> select(const Numbers& numbers, std::uint64_t exchange);

 private:
  float accumulated(const Numbers& numbers, std::size_t i) const;
  float least(const Numbers& numbers, std::uint64_t exchange);
  void find_in_all(const Numbers& numbers);

  const kernels::Accumulation how_;
  std::vector<std::uint32_t> found_;
  std::vector<float> sample_;
};

}  // namespace asup::sync
