#include "asup/parallel/tensor/cross_entropy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "asup/base/error.h"
#include "asup/parallel/tensor_cut.h"
#include "tests/parallel/tensor/tensor_ranks.h"
#include "tests/support/thrown.h"

namespace asup::parallel {
namespace {

using net::LinkKind;
using testing::expect_close;
using ::testing::HasSubstr;
using testing::message_of;
using testing::random_numbers;
using testing::run_group;
using torch::Tensor;

namespace F = torch::nn::functional;

constexpr std::int64_t kClasses = 13;

// Scores far from zero would overflow where the largest is not taken off.
TEST(ParallelCrossEntropy, IsTorchs) {
  const Tensor scores = (random_numbers({4, 6, kClasses}, 1) * 5 + 200).set_requires_grad(true);
  const Tensor target = torch::arange(24).remainder(kClasses).view({4, 6});
  const Tensor weights = random_numbers({4, 6}, 2);
  for (const double smoothing : {0.0, 0.2}) {
    const auto each =
        F::CrossEntropyFuncOptions().reduction(torch::kNone).label_smoothing(smoothing);
    const Tensor expected =
        F::cross_entropy(scores.flatten(0, 1), target.flatten(), each).view({4, 6});
    const Tensor gradient = torch::autograd::grad({(expected * weights).sum()}, {scores}).front();
    for (const int ranks : {1, 2, 3, 4})
      run_group({LinkKind::inproc, ranks}, [&](const TensorGroup& group) {
        const TensorCut cut{2, kClasses};
        const Tensor part =
            part_of(scores.detach(), cut, group.rank(), ranks).set_requires_grad(true);
        const Tensor loss = parallel_cross_entropy(part, target, kClasses, group, smoothing);
        expect_close(loss, expected, "loss");
        (loss * weights).sum().backward();
        expect_close(part.grad(), part_of(gradient, cut, group.rank(), ranks), "gradient");
      });
  }
}

TEST(ParallelCrossEntropy, RefusesWhatIsNoTarget) {
  run_group({LinkKind::inproc, 2}, [](const TensorGroup& group) {
    const Tensor scores = torch::zeros({3, group.rank() == 0 ? 7 : 6});
    for (const int target : {-1, 13})
      EXPECT_THAT(message_of<BadInput>([&] {
                    parallel_cross_entropy(scores, torch::full({3}, target, torch::kLong), kClasses,
                                           group);
                  }),
                  HasSubstr(fmt::format("a target is {}", target)));
    EXPECT_THAT(message_of<BadInput>(
                    [&] { parallel_cross_entropy(scores, torch::zeros({3}), kClasses, group); }),
                HasSubstr("numbers of classes"));
    EXPECT_THAT(message_of<BadInput>([&] {
                  parallel_cross_entropy(scores, torch::zeros({3}, torch::kLong), 20, group);
                }),
                HasSubstr("its part of 20 is 10"));
  });
}

}  // namespace
}  // namespace asup::parallel
