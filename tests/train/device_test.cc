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
  for (const char* setting : {"cuda", "auto"})
    for (int place = 0; place < 10; ++place)
      EXPECT_EQ(choose_device(setting, place, 4), torch::Device(torch::kCUDA, place % 4));
  EXPECT_EQ(choose_device("cuda:2", 1, 4), torch::Device(torch::kCUDA, 2));
  EXPECT_EQ(choose_device("cpu", 1, 4), torch::Device(torch::kCPU));
  EXPECT_EQ(choose_device("auto", 1, 0), torch::Device(torch::kCPU));
  EXPECT_THROW(choose_device("cuda:4", 0, 4), BadInput);
  EXPECT_THROW(choose_device("cuda", 0, 0), BadInput);
}

TEST(Device, TheGpusAreThoseThatTorchFinds) {
  const auto gpus = static_cast<int>(torch::cuda::device_count());
  for (int place = 0; gpus > 0 && place < 5; ++place)
    EXPECT_EQ(choose_device("cuda", place), choose_device("cuda", place, gpus));
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
