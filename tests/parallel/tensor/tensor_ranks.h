// Ranks that compute layers together: what the tests of tensor parallelism share.
#pragma once

#include <torch/torch.h>

#include <functional>

#include "asup/parallel/tensor/tensor_group.h"
#include "tests/support/ranks.h"

namespace asup::testing {

struct GroupCase {
  net::LinkKind links;
  int ranks;
};
std::string name_of(const GroupCase& each);

// Runs `body` on each rank with a group of all; torch computes on one thread a rank.
void run_group(const GroupCase& of, const std::function<void(const parallel::TensorGroup&)>& body);

// Calls `make` as if this rank were alone in the process, with torch's generator seeded.
template <typename Make>
auto seeded(const Make& make) -> decltype(make());

torch::Tensor random_numbers(torch::IntArrayRef shape, std::uint64_t seed);

// |a - b| <= 1e-5 of the largest of b.
void expect_close(const torch::Tensor& a, const torch::Tensor& b, const char* what);

std::mutex& seed_mutex();

template <typename Make>
auto seeded(const Make& make) -> decltype(make()) {
  std::lock_guard lock(seed_mutex());
  torch::manual_seed(3);
  return make();
}

}  // namespace asup::testing
