#include "asup/train/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace asup::train {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Device, TheCpuIsAlwaysThere) {
  EXPECT_EQ(choose_device("cpu", 3), torch::Device(torch::kCPU));
  if (!torch::cuda::is_available()) {
    EXPECT_EQ(choose_device("auto", 3), torch::Device(torch::kCPU));
  }
}

TEST(Device, WorkersOfAHostShareItsGpus) {
  const auto gpus = static_cast<int>(torch::cuda::device_count());
  for (int place = 0; gpus > 0 && place < 5; ++place)
    EXPECT_EQ(choose_device("cuda", place), torch::Device(torch::kCUDA, place % gpus));
  EXPECT_THROW(choose_device(fmt::format("cuda:{}", gpus), 0), BadInput);
}

TEST(Device, SaysWhatToDoWithoutMemory) {
  try {
    explain_lack_of_memory([]() -> int {
      TORCH_CHECK_WITH(OutOfMemoryError, false,
                       "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 1 GiB.");
      return 1;
    });
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("CUDA out of memory"));
    EXPECT_THAT(error.what(), HasSubstr("Use a smaller batch, more portions of it (accumulate)"));
    EXPECT_THAT(error.what(), Not(HasSubstr("\n")));
  }
  EXPECT_EQ(explain_lack_of_memory([] { return 1; }), 1);
}

}  // namespace
}  // namespace asup::train
