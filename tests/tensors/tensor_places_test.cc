#include "asup/tensors/tensor_places.h"

#include <c10/core/CPUAllocator.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <torch/torch.h>

#include <csignal>
#include <cstring>
#include <optional>

#include "asup/base/error.h"
#include "tests/support/lies_in_file.h"
#include "tests/support/thrown.h"

namespace asup {
namespace {

using asup::testing::message_of;
using ::testing::HasSubstr;

constexpr const char* kFolder = "/var/tmp";  // on a disk, as a rule
constexpr std::int64_t kLarge = 4 << 20;     // numbers

bool lies_in_file(const torch::Tensor& tensor) {
  return asup::testing::lies_in_file(tensor.data_ptr());
}

TEST(TensorsInFile, AreThoseOfItsScopeThatAreLarge) {
  const TensorFile file(kFolder);
  torch::Tensor there, small, inner;
  {
    const TensorsIn scope(file);
    there = torch::ones({kLarge});
    small = torch::ones({16});
    const TensorsIn again(file);
    inner = torch::ones({kLarge});
  }
  const auto after = torch::ones({kLarge});
  EXPECT_TRUE(lies_in_file(there));
  EXPECT_TRUE(lies_in_file(inner));
  EXPECT_FALSE(lies_in_file(small));
  EXPECT_FALSE(lies_in_file(after));
  EXPECT_EQ((there + inner + after).sum().item<double>(), 3.0 * kLarge);
}

TEST(TensorsInFile, OutliveIt) {
  torch::Tensor there;
  {
    const TensorFile file(kFolder);
    const TensorsIn scope(file);
    there = torch::arange(kLarge, torch::kFloat32);
  }
  EXPECT_EQ(there[kLarge - 1].item<float>(), kLarge - 1);
}

// What backward needs of a forward lies there until then.
TEST(TensorsInFile, GradientsAreThoseOfMemory) {
  const TensorFile file(kFolder);
  torch::manual_seed(1);
  const auto weight = torch::randn({1024, 1024}, torch::requires_grad());
  const auto gradient = [&] {
    const auto loss = weight.matmul(weight).relu().square().sum();
    return torch::autograd::grad({loss}, {weight}).front();
  };
  const torch::Tensor usual = gradient();
  const TensorsIn scope(file);
  EXPECT_TRUE(torch::equal(gradient(), usual));
}

// As on a full disk.
TEST(TensorsInFile, ADiskWithoutRoomIsTold) {
  const TensorFile file(kFolder);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit less{8 << 20, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &less);
  {
    const TensorsIn scope(file);
    EXPECT_THAT(message_of<Error>([] { torch::ones({kLarge}); }),
                HasSubstr("the disk has no room for another 16 MB of tensors"));
    EXPECT_EQ(torch::ones({kLarge / 4}).sum().item<double>(), kLarge / 4);
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
}

TEST(TensorsInFile, AFolderThatIsNoneIsRefused) {
  EXPECT_THAT(message_of<BadInput>([] { TensorFile("/nowhere"); }),
              HasSubstr("/nowhere: no file can be made there (No such file or directory)"));
  EXPECT_THAT(message_of<BadInput>([] { TensorFile("/dev/shm"); }), HasSubstr("lies in memory"));
}

// As oneDNN does for convolutions.
TEST(TensorsInFile, MemoryMayBeFreedByItsAddress) {
  const TensorFile file(kFolder);
  c10::Allocator& allocator = *c10::GetCPUAllocator();
  for (const bool in_file : {true, false}) {
    for (const std::size_t bytes : {std::size_t{100}, std::size_t{20} << 20}) {
      std::optional<TensorsIn> scope;
      if (in_file) scope.emplace(file);
      void* const data = allocator.raw_allocate(bytes);
      scope.reset();  // wherever it is freed
      std::memset(data, 1, bytes);
      allocator.raw_deallocate(data);
    }
  }
}

#if !defined(__SANITIZE_ADDRESS__)
TEST(KeepTensorMemory, ALargeTensorHasTheMemoryOfOneBeforeIt) {
  const auto before = torch::ones({8, 1024, 1024});  // is freed as it was made
  keep_tensor_memory();
  keep_tensor_memory();
  auto first = torch::ones({8, 1024, 1024});
  const void* const place = first.data_ptr();
  first.reset();
  auto second = torch::zeros({8, 1024, 1024});
  EXPECT_EQ(second.data_ptr(), place);
  EXPECT_EQ(second.sum().item<float>(), 0);
  second.resize_({9, 1024, 1024});
  EXPECT_EQ(second.slice(0, 0, 8).sum().item<float>(), 0);
  EXPECT_EQ(torch::ones({16}).sum().item<float>(), 16);
}
#endif

TEST(TensorBytes, AreOfWhatIsMadeAndNotFreed) {
  const torch::Tensor before = torch::ones({1000});
  torch::Tensor kept;
  {
    const TensorBytes bytes;
    EXPECT_EQ(bytes.in_use(), 0u);
    kept = torch::ones({1000});
    EXPECT_EQ(bytes.in_use(), 4000u);
    {
      const torch::Tensor large = torch::empty({kLarge});
      EXPECT_EQ(bytes.in_use(), 4000u + 4 * kLarge);
      const TensorBytes inner;
      const torch::Tensor other = torch::empty({10});
      EXPECT_EQ(inner.in_use(), 40u);
    }
    EXPECT_EQ(bytes.in_use(), 4000u);
    const torch::Tensor view = kept.view({10, 100});
    kept = torch::Tensor();
    EXPECT_EQ(bytes.in_use(), 4000u);
  }
  EXPECT_EQ(before.sum().item<double>(), 1000);
}

}  // namespace
}  // namespace asup
