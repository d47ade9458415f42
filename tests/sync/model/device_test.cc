#include "asup/sync/model/device.h"

#include <gtest/gtest.h>

namespace asup::sync {
namespace {

TEST(Copies, AreMadeOfNothingOnTheCpu) {
  const torch::Tensor tensor = torch::ones({3});
  EXPECT_FALSE(travels_as_copy(torch::kCPU));
  EXPECT_EQ(on_host(tensor).data_ptr(), tensor.data_ptr());
}

TEST(Copies, AreMadeWhereTheyAreForced) {
  const torch::Tensor tensor = torch::ones({3});
  {
    const ForcedCopies forced;
    EXPECT_TRUE(travels_as_copy(torch::kCPU));
    const torch::Tensor copy = on_host(tensor);
    EXPECT_NE(copy.data_ptr(), tensor.data_ptr());
    EXPECT_TRUE(copy.equal(tensor));
    const ForcedCopies not_forced(false);
    EXPECT_TRUE(travels_as_copy(torch::kCPU));
  }
  EXPECT_FALSE(travels_as_copy(torch::kCPU));
}

TEST(Copies, AreMadeOfAGpusMemory) {
  EXPECT_TRUE(travels_as_copy(torch::Device(torch::kCUDA, 0)));
  if (!torch::cuda::is_available()) return;
  const torch::Tensor copy = on_host(torch::ones({3}, torch::kCUDA));
  EXPECT_TRUE(copy.is_cpu());
  EXPECT_TRUE(copy.equal(torch::ones({3})));
}

}  // namespace
}  // namespace asup::sync
