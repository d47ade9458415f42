#include "asup/layout/layout.h"

#include <gmock/gmock.h>

#include "asup/base/error.h"
#include "tests/support/thrown.h"

namespace asup::layout {
namespace {

using asup::testing::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Ranges, ThatTouchAreJoined) {
  const std::vector<Range> ranges = {{0, 0}, {0, 5}, {5, 5}, {5, 9}, {16, 20}, {20, 32}};
  EXPECT_THAT(joined(ranges), ElementsAre(Range{0, 9}, Range{16, 32}));
}

TEST(Ranges, ThatDoNotMeetHaveAnEmptyIntersection) {
  EXPECT_EQ(intersection({2, 9}, {5, 20}), (Range{5, 9}));
  EXPECT_TRUE(intersection({2, 5}, {5, 20}).empty());
  EXPECT_EQ(intersection({2, 5}, {7, 20}).size(), 0u);
}

TEST(Layouts, ArePackedOrOnCacheLinesOfTheirType) {
  const std::vector<TensorShape> shapes = {{"a", 3}, {"b", 9}};
  EXPECT_EQ(packed(shapes), (Layout{Dtype::f32, {{0, "a", {0, 3}}, {1, "b", {3, 12}}}, 12}));
  EXPECT_EQ(aligned(shapes), (Layout{Dtype::f32, {{0, "a", {0, 3}}, {1, "b", {16, 25}}}, 32}));
  EXPECT_EQ(aligned(shapes, Dtype::f64),
            (Layout{Dtype::f64, {{0, "a", {0, 3}}, {1, "b", {8, 17}}}, 24}));
}

TEST(Layouts, GoOnWithAnother) {
  Layout layout = packed({{"a", 3}});
  append(layout, {Dtype::f32, {{7, "b", {2, 4}}}, 10});
  EXPECT_EQ(layout, (Layout{Dtype::f32, {{0, "a", {0, 3}}, {7, "b", {5, 7}}}, 13}));
}

TEST(Layouts, KeepTheirSpaceWithoutEmptyTensors) {
  const Layout layout = without_empty(aligned({{"none", 0}, {"a", 3}, {"nothing", 0}}));
  EXPECT_EQ(layout, (Layout{Dtype::f32, {{1, "a", {0, 3}}}, 16}));
  EXPECT_THAT(ranges_by_index(layout, 3), ElementsAre(Range{}, Range{0, 3}, Range{}));
}

TEST(Layouts, ThatOverlapOrReachBeyondTheEndAreRefused) {
  Layout layout = packed({{"t0", 10}, {"t1", 20}});
  EXPECT_NO_THROW(require_sound(layout));
  layout.tensors[1].range.begin = 9;
  EXPECT_THAT(message_of<BadInput>([&] { require_sound(layout); }), HasSubstr("parameter t1"));
  layout.tensors[1].range.begin = 10;
  layout.elements = 29;
  EXPECT_THAT(message_of<BadInput>([&] { require_sound(layout); }), HasSubstr("the space at 29"));
}

TEST(Parts, AreWhatOfEachTensorLiesInTheRange) {
  const Layout layout = aligned({{"a", 10}, {"none", 0}, {"b", 20}, {"c", 5}});  // c at 48
  EXPECT_THAT(parts_in(layout, {4, 50}),
              ElementsAre(Part{0, 4, {4, 10}}, Part{2, 0, {16, 36}}, Part{3, 0, {48, 50}}));
  EXPECT_THAT(parts_in(layout, {20, 30}), ElementsAre(Part{2, 4, {20, 30}}));
  EXPECT_THAT(parts_in(layout, {10, 16}), IsEmpty());
  EXPECT_THAT(parts_in(layout, {20, 20}), IsEmpty());
}

TEST(Shards, AreEvenAndEndOnCacheLines) {
  EXPECT_THAT(cut_into_shards(packed({{"a", 1000}, {"b", 600}}), 1, false),
              ElementsAre(Range{0, 1600}));
  EXPECT_THAT(cut_into_shards(packed({{"a", 1000}, {"b", 610}}), 3, false),
              ElementsAre(Range{0, 544}, Range{544, 1072}, Range{1072, 1610}));
}

TEST(Shards, OfWholeTensorsAreAsEvenAsTheTensorsAllow) {
  const Layout layout = packed({{"a", 100}, {"b", 300}, {"c", 200}, {"d", 400}});
  EXPECT_THAT(cut_into_shards(layout, 2, true), ElementsAre(Range{0, 400}, Range{400, 1000}));
  EXPECT_THAT(cut_into_shards(layout, 3, true),
              ElementsAre(Range{0, 400}, Range{400, 600}, Range{600, 1000}));
}

TEST(Shards, AreEmptyWhereThereAreTooMany) {
  EXPECT_THAT(cut_into_shards(packed({{"a", 10}}), 2, false),
              ElementsAre(Range{0, 0}, Range{0, 10}));
  EXPECT_THAT(cut_into_shards(packed({{"a", 10}, {"b", 10'000}}), 3, true),
              ElementsAre(Range{0, 10}, Range{10, 10'010}, Range{10'010, 10'010}));
}

}  // namespace
}  // namespace asup::layout
