#include "asup/ps/shard_map.h"

#include <gmock/gmock.h>

#include "asup/base/error.h"
#include "tests/support/temporary_folder.h"

namespace asup::ps {
namespace {

using asup::testing::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Layout layout_of(const std::vector<std::uint64_t>& tensors) {
  Layout layout;
  for (const std::uint64_t elements : tensors) {
    layout.tensors.push_back(
        {fmt::format("t{}", layout.tensors.size()), {layout.elements, layout.elements + elements}});
    layout.elements += elements;
  }
  return layout;
}

TEST(Shards, AreEvenAndEndOnCacheLines) {
  EXPECT_THAT(cut_into_shards(layout_of({1000, 600}), 1, false), ElementsAre(Range{0, 1600}));
  EXPECT_THAT(cut_into_shards(layout_of({1000, 610}), 3, false),
              ElementsAre(Range{0, 544}, Range{544, 1072}, Range{1072, 1610}));
}

TEST(Shards, OfWholeTensorsAreAsEvenAsTheTensorsAllow) {
  const Layout layout = layout_of({100, 300, 200, 400});
  EXPECT_THAT(cut_into_shards(layout, 2, true), ElementsAre(Range{0, 400}, Range{400, 1000}));
  EXPECT_THAT(cut_into_shards(layout, 3, true),
              ElementsAre(Range{0, 400}, Range{400, 600}, Range{600, 1000}));
}

TEST(Shards, MoreServersThanParametersAreRefused) {
  EXPECT_THAT(message_of<BadInput>([] { cut_into_shards(layout_of({8}), 2, false); }),
              HasSubstr("2 servers are more than the model can use: its 8 parameters"));
  EXPECT_THAT(message_of<BadInput>([] {
                cut_into_shards(layout_of({10, 10'000}), 3, true);
              }),
              HasSubstr("of whole tensors; start fewer"));
  EXPECT_THAT(message_of<BadInput>([] { cut_into_shards(layout_of({100}), 0, false); }),
              HasSubstr("at least one"));
}

TEST(Layouts, ThatOverlapOrReachBeyondTheEndAreRefused) {
  Layout layout = layout_of({10, 20});
  EXPECT_NO_THROW(require_sound(layout));
  layout.tensors[1].range.begin = 9;
  EXPECT_THAT(message_of<BadInput>([&] { require_sound(layout); }), HasSubstr("parameter t1"));
  layout = layout_of({10, 20});
  layout.elements = 29;
  EXPECT_THAT(message_of<BadInput>([&] { require_sound(layout); }), HasSubstr("the space at 29"));
  EXPECT_THAT(message_of<BadInput>([] { require_sound({}); }), HasSubstr("no parameter"));
}

}  // namespace
}  // namespace asup::ps
