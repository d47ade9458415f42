#include "asup/parallel/tensor/region_random.h"

#include <gtest/gtest.h>

#include "tests/parallel/tensor/tensor_ranks.h"

namespace asup::parallel {
namespace {

using torch::Tensor;

struct Drawn {
  Tensor before, inside, after;
};

// The generator is the process's: ranks that are threads draw one after the other.
TEST(RegionRandom, DiffersByRankAndNowhereElse) {
  std::vector<Drawn> drawn(2);
  testing::run_group({net::LinkKind::inproc, 2}, [&](const TensorGroup& group) {
    testing::seeded([&] {
      Drawn& mine = drawn[static_cast<std::size_t>(group.rank())];
      mine.before = torch::rand({100});
      {
        const RegionRandom random(group);
        mine.inside = torch::rand({100});
      }
      mine.after = torch::rand({100});
      return 0;
    });
  });
  EXPECT_TRUE(drawn[0].before.equal(drawn[1].before));
  EXPECT_FALSE(drawn[0].inside.equal(drawn[1].inside));
  EXPECT_TRUE(drawn[0].after.equal(drawn[1].after));
  EXPECT_FALSE(drawn[0].after.equal(drawn[0].before));
}

}  // namespace
}  // namespace asup::parallel
