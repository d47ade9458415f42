#include "asup/parallel/tensor/embedding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "asup/base/error.h"
#include "tests/parallel/tensor/tensor_ranks.h"
#include "tests/support/thrown.h"

namespace asup::parallel {
namespace {

using net::LinkKind;
using testing::expect_close;
using ::testing::HasSubstr;
using testing::message_of;
using testing::run_group;
using testing::seeded;
using torch::Tensor;

// 11 rows are 4, 4 and 3.
TEST(ParallelEmbedding, IsTorchs) {
  const auto indices = torch::tensor({0, 3, 4, 10, 7, 7, 8, 1}, torch::kLong).view({2, 4});
  auto whole = seeded([] { return torch::nn::Embedding(11, 5); });
  const Tensor expected = whole->forward(indices);
  expected.square().sum().backward();
  for (const int ranks : {1, 2, 3})
    run_group({LinkKind::inproc, ranks}, [&](const TensorGroup& group) {
      auto part = seeded([&] { return ParallelEmbedding(11, 5, group); });
      const TensorCut cut = part->cuts().at("weight");
      EXPECT_TRUE(part->weight.equal(part_of(whole->weight, cut, group.rank(), ranks)));
      const Tensor vectors = part->forward(indices);
      EXPECT_TRUE(vectors.equal(expected));
      vectors.square().sum().backward();
      expect_close(part->weight.grad(), part_of(whole->weight.grad(), cut, group.rank(), ranks),
                   "gradient");
    });
}

TEST(ParallelEmbedding, RefusesWhatIsInNoPart) {
  run_group({LinkKind::inproc, 2}, [](const TensorGroup& group) {
    ParallelEmbedding table(11, 5, group);
    for (const int index : {-1, 11})
      EXPECT_THAT(message_of<BadInput>([&] { table(torch::full({2}, index, torch::kLong)); }),
                  HasSubstr(fmt::format("has no row {}", index)));
    EXPECT_THAT(message_of<BadInput>([&] { ParallelEmbedding(1, 5, group); }),
                HasSubstr("cannot be cut over 2 ranks"));
  });
}

}  // namespace
}  // namespace asup::parallel
