#include "asup/parallel/tensor/linear.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "asup/base/error.h"
#include "asup/collective/mesh/mesh_communicator.h"
#include "asup/parallel/pipeline/weight_gradients.h"
#include "asup/precision/autocast.h"
#include "tests/parallel/tensor/tensor_ranks.h"
#include "tests/support/processes.h"
#include "tests/support/thrown.h"

namespace asup::parallel {
namespace {

using net::LinkKind;
using testing::expect_close;
using testing::GroupCase;
using ::testing::HasSubstr;
using testing::message_of;
using testing::random_numbers;
using testing::run_group;
using testing::seeded;
using torch::Tensor;

constexpr std::int64_t kIn = 10, kHidden = 14, kOut = 6;

class ParallelLinears : public ::testing::TestWithParam<GroupCase> {};

// Of a whole tensor, what this rank has.
Tensor mine(const Tensor& whole, const TensorCut& cut, const TensorGroup& group) {
  return part_of(whole, cut, group.rank(), group.size());
}

struct Whole {
  torch::nn::Linear first{nullptr}, second{nullptr};
  Tensor x, y;

  explicit Whole(torch::IntArrayRef shape) {
    seeded([&] {
      first = torch::nn::Linear(kIn, kHidden);
      second = torch::nn::Linear(kHidden, kOut);
      return 0;
    });
    x = random_numbers(shape, 1).set_requires_grad(true);
    y = second(torch::tanh(first(x)));
    (y * random_numbers(y.sizes(), 2)).sum().backward();
  }
};

// First weights, outputs and gradients are those of torch's layers. 14 features are 7 and 7, 5, 5
// and 4, or 4, 4, 3 and 3.
TEST_P(ParallelLinears, OneBehindTheOtherIsTorchs) {
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{9, kIn}, {3, 5, kIn}}) {
    Whole whole(shape);
    run_group(GetParam(), [&](const TensorGroup& group) {
      ColumnParallelLinear first{nullptr};
      RowParallelLinear second{nullptr};
      seeded([&] {
        first = ColumnParallelLinear(kIn, kHidden, group);
        second = RowParallelLinear(kHidden, kOut, group);
        return 0;
      });
      const auto cut_first = first->cuts(), cut_second = second->cuts();
      EXPECT_TRUE(first->weight.equal(mine(whole.first->weight, cut_first.at("weight"), group)));
      EXPECT_TRUE(second->bias.equal(whole.second->bias));
      const Tensor x = whole.x.detach().clone().set_requires_grad(true);
      for (int pass = 0; pass < 3; ++pass) {
        x.mutable_grad() = Tensor();
        first->zero_grad();
        second->zero_grad();
        const Tensor y = second(torch::tanh(first(x)));
        (y * random_numbers(y.sizes(), 2)).sum().backward();
        expect_close(y, whole.y, "output");
        expect_close(x.grad(), whole.x.grad(), "gradient of the input");
        expect_close(first->weight.grad(),
                     mine(whole.first->weight.grad(), cut_first.at("weight"), group), "dW1");
        expect_close(first->bias.grad(),
                     mine(whole.first->bias.grad(), cut_first.at("bias"), group), "db1");
        expect_close(second->weight.grad(),
                     mine(whole.second->weight.grad(), cut_second.at("weight"), group), "dW2");
        expect_close(second->bias.grad(), whole.second->bias.grad(), "db2");
      }
    });
  }
}

// Each by itself, with whole inputs and outputs, and with a weight that lies the other way.
TEST_P(ParallelLinears, EachAloneIsTorchs) {
  Whole whole({4, kIn});
  for (const bool transposed : {false, true})
    run_group(GetParam(), [&](const TensorGroup& group) {
      const FirstWeights same = [&](Tensor weight, Tensor bias) {
        weight.copy_(transposed ? whole.first->weight.t() : whole.first->weight);
        bias.copy_(whole.first->bias);
      };
      ColumnParallelLinear columns(ColumnParallelLinearOptions(kIn, kHidden, group)
                                       .gather_output(true)
                                       .transposed(transposed)
                                       .first_weights(same));
      RowParallelLinear rows(RowParallelLinearOptions(kIn, kHidden, group)
                                 .split_input(true)
                                 .transposed(transposed)
                                 .first_weights(same));
      const Tensor x = whole.x.detach();
      const Tensor expected_x = x.clone().set_requires_grad(true);
      const Tensor expected = whole.first->forward(expected_x);
      const Tensor expected_dx =
          torch::autograd::grad({(expected * expected).sum()}, {expected_x}).front();
      const auto expect_same = [&](auto& layer) {
        const Tensor own = x.clone().set_requires_grad(true);
        const Tensor y = layer(own);
        expect_close(y, expected, "output");
        (y * y).sum().backward();
        expect_close(own.grad(), expected_dx, "gradient of the input");
      };
      expect_same(columns);
      expect_same(rows);
    });
}

// What is not cut has the same bits on all ranks.
TEST_P(ParallelLinears, WholeTensorsAreEqual) {
  run_group(GetParam(), [&](const TensorGroup& group) {
    auto [first, second] = seeded([&] {
      return std::tuple(ColumnParallelLinear(kIn, kHidden, group),
                        RowParallelLinear(kHidden, kOut, group));
    });
    const Tensor x = random_numbers({33, kIn}, 5).set_requires_grad(true);
    const Tensor y = second(torch::relu(first(x)));
    y.square().sum().backward();
    for (const Tensor& each : {y.detach(), x.grad(), second->bias.grad()}) {
      std::vector<Tensor> extremes;
      for (const auto op : {ReduceOp::max, ReduceOp::min}) {
        const Tensor copy = each.clone();
        group.all_reduce(copy, "compare", op);
        extremes.push_back(copy);
      }
      EXPECT_TRUE(extremes[0].equal(extremes[1]));
    }
  });
}

// The queries, keys and values of a rank's heads.
TEST_P(ParallelLinears, BlocksAreCutEach) {
  const std::int64_t part = 2 * GetParam().ranks;
  run_group(GetParam(), [&](const TensorGroup& group) {
    auto [plain, blocks] = seeded([&] {
      torch::nn::Linear whole(kIn, 3 * part);
      torch::manual_seed(3);
      return std::tuple(
          whole, ColumnParallelLinear(ColumnParallelLinearOptions(kIn, 3 * part, group).blocks(3)));
    });
    const Tensor x = random_numbers({4, kIn}, 6);
    const auto whole = plain->forward(x).chunk(3, -1), own = blocks->forward(x).chunk(3, -1);
    for (std::size_t i = 0; i < 3; ++i)
      expect_close(own[i], whole[i].narrow(-1, 2 * group.rank(), 2), "a block");
  });
}

// In a pipeline whose schedule splits backward.
TEST_P(ParallelLinears, GradientsOfWeightsCanWait) {
  run_group(GetParam(), [&](const TensorGroup& group) {
    auto [first, second] = seeded([&] {
      return std::tuple(
          ColumnParallelLinear(kIn, kHidden, group),
          RowParallelLinear(RowParallelLinearOptions(kHidden, kOut, group).transposed(true)));
    });
    const std::vector<Tensor> parameters{first->weight, first->bias, second->weight, second->bias};
    const Tensor x = random_numbers({3, 5, kIn}, 7).set_requires_grad(true);
    second(torch::tanh(first(x))).square().sum().backward();
    std::vector<Tensor> expected;
    for (const Tensor& each : parameters) {
      expected.push_back(each.grad().clone());
      each.mutable_grad() = Tensor();
    }
    const Tensor of_input = x.grad().clone();
    x.mutable_grad() = Tensor();

    const auto later = c10::make_intrusive<WeightGradients>();
    Tensor y;
    {
      const DeferWeightGradients defer(later);
      y = second(torch::tanh(first(x)));
    }
    y.square().sum().backward();
    expect_close(x.grad(), of_input, "gradient of the input");
    for (const Tensor& each : parameters) {
      EXPECT_FALSE(each.grad().defined());
      EXPECT_TRUE(later->knows(each));
    }
    later->run();
    for (std::size_t i = 0; i < parameters.size(); ++i)
      expect_close(parameters[i].grad(), expected[i], "gradient of a parameter");
  });
}

// Under Autocast they compute in its type, as torch's layers do, and have gradients in their own.
TEST_P(ParallelLinears, ComputeInFewerBits) {
  run_group(GetParam(), [&](const TensorGroup& group) {
    auto [first, second] = seeded([&] {
      return std::tuple(ColumnParallelLinear(kIn, kHidden, group),
                        RowParallelLinear(kHidden, kOut, group));
    });
    const Tensor x = random_numbers({9, kIn}, 8), expected = second(torch::relu(first(x)));
    Tensor y;
    {
      const Autocast autocast(torch::kCPU, Precision::bf16);
      y = second(torch::relu(first(x)));
    }
    EXPECT_EQ(y.scalar_type(), torch::kBFloat16);
    EXPECT_TRUE(y.to(torch::kFloat).allclose(expected, 0.05, 0.05));
    y.to(torch::kFloat).sum().backward();
    for (const Tensor& each : {first->weight, first->bias, second->weight, second->bias}) {
      ASSERT_TRUE(each.grad().defined());
      EXPECT_EQ(each.grad().scalar_type(), torch::kFloat);
    }
  });
}

// A rank without samples.
TEST_P(ParallelLinears, TakeNothing) {
  run_group(GetParam(), [&](const TensorGroup& group) {
    ColumnParallelLinear first(kIn, kHidden, group);
    RowParallelLinear second(kHidden, kOut, group);
    const Tensor x = torch::zeros({0, kIn}).set_requires_grad(true);
    const Tensor y = second(first(x));
    y.sum().backward();
    EXPECT_EQ(y.sizes().vec(), (std::vector<std::int64_t>{0, kOut}));
    EXPECT_EQ(x.grad().numel(), 0);
  });
}

INSTANTIATE_TEST_SUITE_P(Groups, ParallelLinears,
                         ::testing::Values(GroupCase{LinkKind::inproc, 1},
                                           GroupCase{LinkKind::inproc, 2},
                                           GroupCase{LinkKind::inproc, 4},
                                           GroupCase{LinkKind::shm, 3},
                                           GroupCase{LinkKind::tcp, 2}),
                         [](const auto& info) { return testing::name_of(info.param); });

TEST(ParallelLinear, RefusesWhatCannotBeCut) {
  EXPECT_THAT(message_of<BadInput>([] { TensorGroup{nullptr}; }),
              HasSubstr("needs a communicator"));
  run_group({LinkKind::inproc, 2}, [](const TensorGroup& group) {
    EXPECT_THAT(message_of<BadInput>([&] { ColumnParallelLinear(4, 1, group); }),
                HasSubstr("1 features cannot be cut over 2 ranks"));
    EXPECT_THAT(message_of<BadInput>([&] { RowParallelLinear(1, 4, group); }),
                HasSubstr("1 features cannot be cut over 2 ranks"));
    ColumnParallelLinear layer(kIn, kHidden, group);
    EXPECT_THAT(message_of<BadInput>([&] {
                  layer(torch::zeros({3, kIn + 1}));
                }),
                HasSubstr("takes … × 10"));
    EXPECT_THAT(message_of<BadInput>([&] {
                  layer(torch::zeros({3, kIn}, torch::kBFloat16));
                }),
                HasSubstr("cast the input"));
    const Tensor x = torch::zeros({3, kIn}).set_requires_grad(true);
    EXPECT_THAT(message_of<Error>([&] { layer(x).sum().backward({}, {}, /*create_graph=*/true); }),
                HasSubstr("no second derivative"));
  });
}

// Ranks that have another group in mind find out.
TEST(ParallelLinear, LayersOfOtherSizesAreAMismatch) {
  run_group({LinkKind::inproc, 2}, [](const TensorGroup& group) {
    RowParallelLinear layer(4, group.rank() == 0 ? 5 : 6, group);
    EXPECT_THAT(message_of<JobFailed>([&] {
                  layer(torch::zeros({3, 2}));
                }),
                HasSubstr("the output of a row-parallel layer"));
  });
}

TEST(ParallelLinearProcesses, AKilledRankIsNamed) {
  testing::run_processes(
      3, LinkKind::shm,
      [](Job& job) {
        const TensorGroup group(make_communicator(job));
        ColumnParallelLinear first(kIn, kHidden, group);
        RowParallelLinear second(kHidden, kOut, group);
        std::string told;
        for (int step = 0; told.empty(); ++step) {
          if (job.rank() == 1 && step == 20) raise(SIGKILL);
          try {
            second(torch::relu(first(torch::ones({8, kIn})))).sum().backward();
          } catch (const JobFailed& failure) {
            told = failure.what();
          }
        }
        EXPECT_THAT(told, HasSubstr("row-parallel layer"));
        EXPECT_THAT(told, HasSubstr("rank 1 ("));
      },
      1);
}

}  // namespace
}  // namespace asup::parallel
