#include "asup/tensors/tensor_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

namespace asup {
namespace {

constexpr std::size_t kMiB = 1 << 20;

TEST(TensorMemory, WhatIsFreedIsUsedAgainByWhatIsNearlyAsLarge) {
  TensorMemory memory(std::make_unique<HugePages>());
  void* const first = memory.take(64 * kMiB);
  memory.give_back(first);
  EXPECT_EQ(memory.kept(), 64 * kMiB);
  EXPECT_EQ(memory.take(60 * kMiB), first);
  EXPECT_EQ(memory.in_use(), 64 * kMiB);
  EXPECT_EQ(memory.kept(), 0u);
  memory.give_back(first);
}

TEST(TensorMemory, WhatIsFarLargerIsNot) {
  TensorMemory memory(std::make_unique<HugePages>());
  void* const large = memory.take(64 * kMiB);
  memory.give_back(large);
  void* const small = memory.take(16 * kMiB);
  EXPECT_EQ(memory.in_use(), 16 * kMiB);
  memory.give_back(small);
}

TEST(TensorMemory, ItNeverHasMoreThanWasInUseAtOnce) {
  TensorMemory memory(std::make_unique<HugePages>());
  void* const first = memory.take(32 * kMiB);
  void* const second = memory.take(32 * kMiB);
  memory.give_back(first);
  memory.give_back(second);
  EXPECT_EQ(memory.kept(), 64 * kMiB);
  void* const third = memory.take(48 * kMiB);  // both had to go
  EXPECT_EQ(memory.kept(), 0u);
  memory.give_back(third);
  void* const fourth = memory.take(16 * kMiB);  // there is room for it beside
  EXPECT_EQ(memory.kept() + memory.in_use(), 64 * kMiB);
  memory.give_back(fourth);
  void* const all = memory.take(96 * kMiB);
  EXPECT_EQ(memory.kept() + memory.in_use(), 96 * kMiB);
  memory.give_back(all);
}

TEST(TensorMemory, TheFirstToBeFreedGoFirst) {
  TensorMemory memory(std::make_unique<HugePages>());
  void* const old = memory.take(32 * kMiB);
  void* const young = memory.take(32 * kMiB);
  memory.give_back(old);
  memory.give_back(young);
  void* const other = memory.take(16 * kMiB);
  EXPECT_EQ(memory.take(32 * kMiB), young);
  memory.give_back(young);
  memory.give_back(other);
}

TEST(TensorMemory, BeginsWithAPageAndIsWritable) {
  TensorMemory memory(std::make_unique<HugePages>());
  void* const data = memory.take(9 * kMiB);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % (2 * kMiB), 0u);
  EXPECT_EQ(memory.in_use(), 10 * kMiB);  // whole pages
  std::memset(data, 1, 9 * kMiB);
  memory.give_back(data);
}

TEST(TensorMemory, WhatNobodyHasIsRefused) {
  TensorMemory memory(std::make_unique<HugePages>());
  EXPECT_EQ(memory.take(std::numeric_limits<std::size_t>::max()), nullptr);
  EXPECT_EQ(memory.take(std::size_t{1} << 60), nullptr);
  EXPECT_EQ(memory.in_use(), 0u);
}

TEST(TensorMemory, ThreadsGetPiecesOfTheirOwn) {
  TensorMemory memory(std::make_unique<HugePages>());
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (int me = 0; me < 4; ++me)
    threads.emplace_back([&, me] {
      for (int i = 0; i < 200; ++i) {
        const std::size_t bytes = (2 + 2 * (i % 3)) * kMiB;
        auto* data = static_cast<unsigned char*>(memory.take(bytes));
        for (std::size_t at = 0; at < bytes; at += kMiB / 2) data[at] = me;
        std::this_thread::yield();
        for (std::size_t at = 0; at < bytes; at += kMiB / 2) wrong[me] += data[at] != me;
        memory.give_back(data);
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
  EXPECT_EQ(memory.in_use(), 0u);
}

}  // namespace
}  // namespace asup
