#include "asup/sync/gradients/bucket_mirror.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/sync/training.h"

namespace asup::sync {
namespace {

// The CPU, and a GPU where there is one.
std::vector<torch::Device> devices() {
  std::vector<torch::Device> all{torch::kCPU};
  if (torch::cuda::is_available()) all.emplace_back(torch::kCUDA, 0);
  return all;
}

constexpr std::int64_t kBuckets = 4, kElements = 1 << 18;

// The device computes for long before each bucket is complete; the host sees it whole, changes it,
// and the device sees that, round after round, without another wait.
TEST(BucketMirror, EachSideSeesWhatTheOtherWrote) {
  for (const torch::Device& device : devices())
    testing::train_ranks(1, net::LinkKind::inproc, [&](Communicator& communicator) {
      const std::size_t bytes = kElements * sizeof(float);
      const std::shared_ptr<SharedMemory> host = communicator.allocate(kBuckets * bytes);
      auto* numbers = reinterpret_cast<float*>(host->bytes().data());
      BucketMirror mirror(host, device, kBuckets);
      const auto there = torch::from_blob(mirror.data(), {kBuckets, kElements},
                                          torch::TensorOptions(torch::kFloat32).device(device));
      const auto work = torch::ones({256, 256}, device);
      for (int round = 0; round < 30; ++round) {
        for (std::int64_t b = 0; b < kBuckets; ++b) {
          const auto slow = work.matmul(work).matmul(work).mul_(0).sum();
          mirror.follow_stream();
          there[b].fill_(static_cast<double>(10 * round + b)).add_(slow);
          mirror.to_host(static_cast<std::size_t>(b), static_cast<std::size_t>(b) * bytes, bytes);
        }
        for (std::int64_t b = 0; b < kBuckets; ++b) {
          mirror.wait_for(static_cast<std::size_t>(b));
          EXPECT_TRUE(mirror.has_come(static_cast<std::size_t>(b)));
          float* bucket = numbers + b * kElements;
          for (std::int64_t i = 0; i < kElements; ++i) {
            ASSERT_EQ(bucket[i], static_cast<float>(10 * round + b)) << "round " << round;
            bucket[i] = -static_cast<float>(round);
          }
          mirror.to_device(static_cast<std::size_t>(b) * bytes, bytes);
        }
        const auto wrong = (there != -static_cast<double>(round)).sum().item<std::int64_t>();
        ASSERT_EQ(wrong, 0) << "round " << round << " on " << device.str();
      }
    });
}

// What lies there outlives the mirror.
TEST(BucketMirror, MemoryIsKeptByWhoHoldsIt) {
  for (const torch::Device& device : devices())
    testing::train_ranks(1, net::LinkKind::inproc, [&](Communicator& communicator) {
      auto mirror = std::make_unique<BucketMirror>(communicator.allocate(4096), device, 1);
      const auto like = torch::zeros({8}, device);
      const auto view = view_like(like, mirror->data(), mirror->memory());
      EXPECT_EQ(view.abs().sum().item<double>(), 0);
      view.fill_(3);
      mirror.reset();
      EXPECT_EQ(view.sum().item<double>(), 24);
    });
}

}  // namespace
}  // namespace asup::sync
