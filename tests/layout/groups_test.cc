#include "asup/layout/groups.h"

#include <gmock/gmock.h>

namespace asup::layout {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<TensorShape> kModel = {{"scale", 1},      {"a.weight", 10}, {"a.bias", 2},
                                         {"b.c.weight", 4}, {"b.c.bias", 1},  {"d.weight", 8}};

TEST(Groups, KeepAModuleTogether) {
  EXPECT_THAT(group_by_module(kModel, 0), ElementsAre(0, 1, 1, 2, 2, 3));
}

TEST(Groups, JoinModulesThatFollowEachOther) {
  EXPECT_THAT(group_by_module(kModel, 4 * 13), ElementsAre(0, 0, 0, 1, 1, 1));
  EXPECT_THAT(group_by_module(kModel, 4 * 12), ElementsAre(0, 1, 1, 2, 2, 3));
  EXPECT_THAT(group_by_module(kModel, 1 << 20), ElementsAre(0, 0, 0, 0, 0, 0));
}

TEST(Groups, OfNoTensorsAreNone) { EXPECT_THAT(group_by_module({}, 100), IsEmpty()); }

}  // namespace
}  // namespace asup::layout
