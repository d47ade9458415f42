#include "tests/parallel/tensor/tensor_ranks.h"

#include <gtest/gtest.h>

#include "asup/collective/mesh/mesh_communicator.h"

namespace asup::testing {

std::string name_of(const GroupCase& each) {
  return fmt::format("{}_of_{}", name_of(each.links), each.ranks);
}

void run_group(const GroupCase& of, const std::function<void(const parallel::TensorGroup&)>& body) {
  torch::set_num_threads(1);
  run_ranks(of.ranks, of.links, [&](Job& job) {
    CommunicatorOptions options;
    options.timeout = testing::kPatience;
    body(parallel::TensorGroup(make_communicator(job, options)));
  });
}

torch::Tensor random_numbers(torch::IntArrayRef shape, std::uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  return torch::randn(shape, generator);
}

void expect_close(const torch::Tensor& a, const torch::Tensor& b, const char* what) {
  ASSERT_EQ(a.sizes(), b.sizes()) << what;
  EXPECT_LE((a - b).abs().max().item<double>(), 1e-5 * b.abs().max().item<double>()) << what;
}

std::mutex& seed_mutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace asup::testing
