#include "asup/parallel/pipeline/messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "asup/base/error.h"
#include "asup/collective/mesh/mesh_communicator.h"
#include "tests/support/ranks.h"
#include "tests/support/thrown.h"

namespace asup::parallel {
namespace {

using ::testing::HasSubstr;

// As it might come from a peer: type, dimensions, sizes.
TensorHead head_of(std::initializer_list<std::int64_t> values) {
  TensorHead head;
  std::ranges::copy(values, static_cast<std::int64_t*>(head.buffer().data));
  return head;
}

constexpr auto kFloat = static_cast<std::int64_t>(torch::kFloat32);
constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

TEST(TensorHead, IsThatOfATensor) {
  for (const auto& tensor :
       {torch::zeros({}), torch::zeros({0, 3}), torch::zeros({2, 3, 4}, torch::kBFloat16),
        torch::zeros({5}, torch::kInt64), torch::zeros({5}, torch::kBool)}) {
    TensorHead head(tensor);
    EXPECT_EQ(head.fault(), "");
    EXPECT_EQ(head.empty().sizes(), tensor.sizes());
    EXPECT_EQ(head.empty().scalar_type(), tensor.scalar_type());
  }
}

TEST(TensorHead, WhatNoTensorHasIsFound) {
  EXPECT_EQ(head_of({kFloat, 9}).fault(), "9 dimensions");
  EXPECT_EQ(head_of({kFloat, -1}).fault(), "-1 dimensions");
  EXPECT_EQ(head_of({-1, 1, 3}).fault(), "type -1");
  EXPECT_EQ(head_of({1000, 1, 3}).fault(), "type 1000");
  EXPECT_EQ(head_of({static_cast<std::int64_t>(torch::kQInt8), 1, 3}).fault(), "type 12");
  EXPECT_EQ(head_of({kFloat, 2, 3, -4}).fault(), "sizes 3 × -4");
  EXPECT_EQ(head_of({kFloat, 2, 1 << 21, 1 << 20}).fault(), "sizes 2097152 × 1048576");
  EXPECT_EQ(head_of({kFloat, 3, kHuge, 0, kHuge}).fault(),
            fmt::format("sizes {} × 0 × {}", kHuge, kHuge));
}

TEST(Messages, AShapeThatThereIsNotIsItsSendersFault) {
  asup::testing::run_ranks(2, net::LinkKind::inproc, [](Job& job) {
    const auto communicator = make_communicator(job);
    if (job.rank() == 0) {
      TensorHead head = head_of({kFloat, 20, 3});
      return communicator->send(head.buffer(), 1).or_throw();
    }
    const PipelineSpec spec{.ranks = 2};
    Messages messages(*communicator, spec, schedules_of(find_schedule("gpipe"), spec));
    messages.begin(7);
    const Action recv{Action::Op::recv_activation, 1, 0};
    EXPECT_THAT(
        asup::testing::message_of<JobFailed>([&] { messages.recv(recv); }),
        HasSubstr("step 7, stage 1, micro-batch 0: waiting for activations from stage 0: rank "
                  "0 announced a tensor with 20 dimensions, which there is not"));
  });
}

}  // namespace
}  // namespace asup::parallel
