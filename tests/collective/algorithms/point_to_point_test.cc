#include "asup/collective/algorithms/point_to_point.h"

#include "asup/base/error.h"
#include "asup/collective/plan/build.h"
#include "tests/collective/cases.h"

namespace asup::collective {
namespace {

TEST(PointToPoint, OneMessage) {
  const Spec there = {.collective = Collective::send, .ranks = 4, .count = 7, .root = 3};
  EXPECT_EQ(send_message(1, there).lanes, (std::vector<Lane>{{{send(3, in(0, 7))}}}));
  const Spec back = {.collective = Collective::recv, .ranks = 4, .count = 7, .root = 1};
  EXPECT_EQ(recv_message(3, back).lanes, (std::vector<Lane>{{{recv(1, out(0, 7))}}}));
}

TEST(PointToPoint, IsProvenAsAPair) {
  for (const Collective collective : {Collective::send, Collective::recv}) {
    for (const int root : {0, 1}) {
      for (const std::size_t count : {0, 1, 1000}) {
        testing::expect_proven(
            find_algorithm(collective, "message"),
            {.collective = collective, .ranks = 2, .count = count, .root = root});
      }
    }
  }
}

TEST(PointToPoint, NobodySendsToItself) {
  EXPECT_THROW(send_message(1, {.collective = Collective::send, .ranks = 2, .root = 1}), BadInput);
  EXPECT_THROW(recv_message(1, {.collective = Collective::recv, .ranks = 2, .root = 1}), BadInput);
}

}  // namespace
}  // namespace asup::collective
