#include "asup/sync/model/agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sync/training.h"
#include "tests/sync/watched_communicator.h"

namespace asup::sync {
namespace {

using net::LinkKind;
using ::testing::HasSubstr;
using testing::train_ranks;

// All ranks must throw, with the same message.
template <typename Body>
void expect_all_fail(int ranks, const char* message, const Body& body) {
  train_ranks(ranks, LinkKind::inproc, [&](Communicator& communicator) {
    try {
      body(communicator);
      ADD_FAILURE() << "rank " << communicator.rank() << " saw no difference";
    } catch (const JobFailed& failure) {
      EXPECT_THAT(failure.what(), HasSubstr(message)) << "on rank " << communicator.rank();
    }
  });
}

TEST(Agreement, TheFirstComplaintIsEverybodys) {
  expect_all_fail(4, "rank 2 is unhappy", [](Communicator& communicator) {
    const int rank = communicator.rank();
    agree(communicator, rank < 2 ? "" : fmt::format("rank {} is unhappy", rank));
  });
  train_ranks(3, LinkKind::inproc, [](Communicator& communicator) { agree(communicator, ""); });
}

std::vector<NamedTensor> weights(
    std::initializer_list<std::pair<const char*, torch::Tensor>> list) {
  std::vector<NamedTensor> result;
  for (const auto& [name, tensor] : list) result.push_back({name, tensor});
  return result;
}

TEST(Agreement, DifferencesAreNamed) {
  const auto a = torch::zeros({64, 3}), b = torch::zeros({5});
  const auto reference = weights({{"a", a}, {"b", b}});
  const auto compare = [&](const std::vector<NamedTensor>& other) {
    return [&reference, other](Communicator& communicator) {
      check_agreed(communicator,
                   agreed_values("parameter", communicator.rank() == 1 ? other : reference));
    };
  };
  expect_all_fail(3, "parameter 0, a: 32×3 f32, frozen on rank 1, 64×3 f32, frozen on rank 0",
                  compare(weights({{"a", torch::zeros({32, 3})}, {"b", b}})));
  expect_all_fail(3, "parameter 1, b: 5 f64, frozen on rank 1, 5 f32, frozen on rank 0",
                  compare(weights({{"a", a}, {"b", b.to(torch::kFloat64)}})));
  expect_all_fail(3, "parameter 1, c (5 f32, frozen) on rank 1 is parameter 1, b (5 f32",
                  compare(weights({{"a", a}, {"c", b}})));
  expect_all_fail(3, "parameter 1, b (5 f32, frozen) is on rank 0 and not on rank 1",
                  compare(weights({{"a", a}})));
  expect_all_fail(3, "parameter 2, c (5 f32, frozen) is on rank 1 and not on rank 0",
                  compare(weights({{"a", a}, {"b", b}, {"c", b}})));
  expect_all_fail(3, "parameter 0, a: 64×3 f32 with strides 1,64",
                  compare(weights({{"a", torch::zeros({3, 64}).t()}, {"b", b}})));
}

TEST(Agreement, BroadcastReachesEveryKindOfTensor) {
  train_ranks(3, LinkKind::tcp, [](Communicator& communicator) {
    const int rank = communicator.rank();
    const auto dense = torch::full({4, 5}, rank, torch::kFloat32);
    const auto transposed = torch::full({4, 5}, rank, torch::kBFloat16).t();
    const auto sliced = torch::full({6, 6}, rank, torch::kInt64).slice(1, 0, 6, 2);
    const auto flag = torch::full({}, rank == 0, torch::kBool);
    const auto none = torch::zeros({0, 3});
    broadcast_tensors(communicator, weights({{"dense", dense},
                                             {"transposed", transposed},
                                             {"sliced", sliced},
                                             {"flag", flag},
                                             {"none", none}}));
    EXPECT_EQ(dense.sum().item<double>(), 0);
    EXPECT_EQ(transposed.sum().item<double>(), 0);
    EXPECT_EQ(sliced.sum().item<double>(), 0);
    EXPECT_TRUE(flag.item<bool>());
  });
}

// Of the calls of a broadcast, those that bring tensors.
std::vector<std::size_t> broadcast_bytes(int ranks, const std::function<NamedTensor(int)>& make) {
  std::vector<std::size_t> bytes;
  train_ranks(ranks, LinkKind::inproc, [&](Communicator& real) {
    testing::WatchedCommunicator communicator(real, [&](const Call& call) {
      if (real.rank() == 0 && call.collective == collective::Collective::broadcast)
        bytes.push_back(call.input.bytes());
    });
    const std::vector<NamedTensor> tensors{{"first", torch::ones({100})}, make(real.rank())};
    broadcast_tensors(communicator, tensors);
    EXPECT_TRUE(torch::equal(tensors[0].tensor, torch::ones({100})));
    EXPECT_TRUE(torch::equal(tensors[1].tensor, make(0).tensor)) << "on rank " << real.rank();
  });
  return bytes;
}

TEST(Agreement, WhatAllHaveAlreadyIsNotBroadcast) {
  for (const int ranks : {1, 2, 5})
    EXPECT_TRUE(broadcast_bytes(ranks, [](int) {
                  return NamedTensor{"second", torch::arange(1001, torch::kInt16)};
                }).empty());
}

// Wherever it is, on one rank alone, and where the bits of zeros differ.
TEST(Agreement, WhatDiffersByOneBitIsBroadcast) {
  for (const std::int64_t at : {0, 3, 4, 500, 996, 1000})
    EXPECT_EQ(broadcast_bytes(3,
                              [&](int rank) {
                                auto second = torch::zeros({1001});
                                if (rank == 2) second[at] = -0.0f;
                                return NamedTensor{"second", second};
                              }),
              (std::vector<std::size_t>{400, 4004}))
        << "at " << at;
}

// Where one tensor ends and the next begins counts.
TEST(Agreement, ZerosBeyondATensorAreNotThoseOfAnother) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    const bool is_first = communicator.rank() == 0;
    const auto whole = torch::zeros({9}, torch::kUInt8), one = torch::zeros({}, torch::kUInt8);
    whole[is_first ? 8 : 0] = 1;
    broadcast_tensors(communicator, weights({{"whole", whole}, {"one", one}}));
    EXPECT_EQ(whole[8].item<int>(), 1);
  });
}

TEST(Agreement, OneBitIsADifference) {
  for (const std::int64_t size : {1, 7, 33, 100000}) {
    train_ranks(2, LinkKind::inproc, [&](Communicator& communicator) {
      check_equal_tensors(communicator, "parameter", weights({{"a", torch::zeros({size})}}));
    });
    expect_all_fail(2, "parameter 1, b: rank 1 has other bits", [&](Communicator& communicator) {
      const auto b = torch::zeros({size});
      if (communicator.rank() == 1) b[size - 1] = -0.0f;
      check_equal_tensors(communicator, "parameter", weights({{"a", torch::ones({3})}, {"b", b}}));
    });
  }
}

}  // namespace
}  // namespace asup::sync
