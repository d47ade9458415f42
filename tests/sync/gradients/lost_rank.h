// What tests of steps share in which one of three ranks is lost.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <utility>
#include <vector>

#include "tests/sync/watched_communicator.h"

namespace asup::testing {

inline constexpr int kRanks = 3;

inline void expect_same(const std::vector<torch::Tensor>& are,
                        const std::vector<torch::Tensor>& were) {
  ASSERT_EQ(are.size(), were.size());
  for (std::size_t i = 0; i < are.size(); ++i) EXPECT_TRUE(torch::equal(are[i], were[i])) << i;
}

// A communicator one of whose calls fails here when all have what comes of it.
class FailsHere : public WatchedCommunicator {
 public:
  explicit FailsHere(Communicator& real) : WatchedCommunicator(real, [](const Call&) {}) {}

  void fail_at(std::size_t call) { until_ = call; }  // of those that are waited for, 1: the next
  Outcome run(Call call) override {
    const Outcome outcome = WatchedCommunicator::run(std::move(call));
    if (until_ == 0 || --until_ > 0) return outcome;
    return {Outcome::Kind::lost, "rank 0 was lost, as far as this one knows"};
  }

 private:
  std::size_t until_ = 0;
};

}  // namespace asup::testing
