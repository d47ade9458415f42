#include "asup/parallel/grid.h"

#include <gtest/gtest.h>

#include <array>

#include "asup/base/error.h"
#include "asup/collective/mesh/mesh_communicator.h"
#include "tests/support/ranks.h"
#include "tests/support/thrown.h"

namespace asup::parallel {
namespace {

TEST(Grid, TellsPlacesApart) {
  const GridShape shape{2, 3, 2};
  EXPECT_EQ(shape.workers(), 12);
  for (int rank = 0; rank < 12; ++rank) EXPECT_EQ(rank_at(place_of(rank, shape), shape), rank);
  EXPECT_EQ(place_of(1, shape), (GridPlace{0, 0, 1}));  // tensor groups lie closest
  EXPECT_EQ(place_of(2, shape), (GridPlace{1, 0, 0}));
  EXPECT_EQ(place_of(4, shape), (GridPlace{0, 1, 0}));  // and stages furthest apart
}

TEST(Grid, FindsTheDataAxisOfWorkers) {
  EXPECT_EQ(grid_of(8, 2, 1), (GridShape{4, 2, 1}));
  EXPECT_EQ(testing::message_of<BadInput>([] { grid_of(6, 4, 1); }),
            "6 workers cannot be divided into groups of 4 (pipeline 4 × tensor 1): give a multiple "
            "of 4 workers, or another grid");
}

// Each axis sums over those that differ on it alone.
TEST(Grid, EachAxisIsAGroup) {
  testing::run_ranks(8, net::LinkKind::inproc, [](Job& job) {
    const auto all = make_communicator(job);
    const GridShape shape{2, 2, 2};
    Grid grid(*all, shape);
    const GridPlace place = place_of(job.rank(), shape);
    EXPECT_EQ(grid.data().rank(), place.data);
    EXPECT_EQ(grid.pipeline().rank(), place.pipeline);
    EXPECT_EQ(grid.tensor().rank(), place.tensor);
    const auto sum_over = [&](Communicator& axis) {
      std::array<std::int64_t, 1> value{1 << job.rank()};
      axis.all_reduce(buffer_of(std::span(value))).or_throw();
      return value[0];
    };
    const auto bits = [&](GridPlace a, GridPlace b) {
      return std::int64_t{1} << rank_at(a, shape) | std::int64_t{1} << rank_at(b, shape);
    };
    const auto [data, pipeline, tensor] = place;
    EXPECT_EQ(sum_over(grid.data()), bits({0, pipeline, tensor}, {1, pipeline, tensor}));
    EXPECT_EQ(sum_over(grid.pipeline()), bits({data, 0, tensor}, {data, 1, tensor}));
    EXPECT_EQ(sum_over(grid.tensor()), bits({data, pipeline, 0}, {data, pipeline, 1}));
    EXPECT_EQ(grid.model().rank(), 2 * pipeline + tensor);
    EXPECT_EQ(sum_over(grid.model()),
              bits({data, 0, 0}, {data, 0, 1}) | bits({data, 1, 0}, {data, 1, 1}));
  });
}

TEST(Grid, RefusesOneOfOtherWorkers) {
  testing::run_ranks(2, net::LinkKind::inproc, [](Job& job) {
    const auto all = make_communicator(job);
    EXPECT_EQ(testing::message_of<BadInput>([&] {
                Grid(*all, {2, 2, 1});
              }),
              "a grid of data 2 × pipeline 2 × tensor 1 is of 4 workers, and there are 2: change "
              "one of them so that they multiply to the workers");
  });
}

}  // namespace
}  // namespace asup::parallel
