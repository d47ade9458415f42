#include "asup/ps/server_setup.h"

#include <gmock/gmock.h>

#include "asup/base/error.h"
#include "tests/support/thrown.h"

namespace asup::ps {
namespace {

using asup::testing::message_of;
using ::testing::HasSubstr;

ServerSetup setup_of(Layout layout, kernels::Rule::Kind rule = kernels::Rule::Kind::sgd) {
  ServerSetup setup;
  setup.layout = std::move(layout);
  setup.rules[0].kind = rule;
  return setup;
}

TEST(ServerSetup, WithMoreServersThanParametersIsRefused) {
  const ServerSetup small = setup_of(layout::packed({{"a", 8}}));
  EXPECT_THAT(message_of<BadInput>([&] { shards_of(small, 2); }),
              HasSubstr("2 servers are more than the model can use: its 8 parameters"));
  EXPECT_THAT(message_of<BadInput>([&] { shards_of(small, 0); }), HasSubstr("at least one"));
  const ServerSetup uneven =
      setup_of(layout::packed({{"a", 10}, {"b", 10'000}}), kernels::Rule::Kind::lars);
  EXPECT_THAT(message_of<BadInput>([&] { shards_of(uneven, 3); }),
              HasSubstr("of whole tensors; start fewer"));
}

TEST(ServerSetup, WithoutParametersIsRefused) {
  EXPECT_THAT(message_of<BadInput>([] { require_sense({}, 1, 1); }), HasSubstr("no parameter"));
}

TEST(ServerSetup, ComesBackFromItsTextWithTensorsInTheOrderOfTheSpace) {
  Layout layout;
  append(layout, 1, {"b", 20});
  pad_to_line(layout);
  append(layout, 0, {"a", 5});
  const std::string text = to_text(setup_of(layout));
  EXPECT_THAT(text, HasSubstr(R"("layout":{"elements":37,"tensors":[["b",0,20],["a",32,37]]})"));
  const Layout read = parse_setup(text).layout;
  EXPECT_EQ(read, (Layout{Dtype::f32, {{0, "b", {0, 20}}, {1, "a", {32, 37}}}, 37}));
}

ServerSetup with_two_groups() {
  ServerSetup setup = setup_of(layout::packed({{"a", 5}, {"b", 20}}));
  setup.rules = {{.kind = kernels::Rule::Kind::adam}, {.weight_decay = 0.5}};
  setup.groups = {1, 0};
  return setup;
}

TEST(ServerSetup, OfMoreElementsThanAnyModelHasIsRefused) {
  ServerSetup setup;
  setup.layout.elements = std::uint64_t{1} << 62;  // their bytes would be none
  EXPECT_THAT(message_of<BadInput>([&] { parse_setup(to_text(setup)); }), HasSubstr("'elements'"));
}

TEST(ServerSetup, GroupsComeBackFromItsText) {
  const ServerSetup setup = with_two_groups();
  EXPECT_EQ(difference(setup, parse_setup(to_text(setup))), "");
  EXPECT_EQ(group_of(setup, 0), 1u);
  EXPECT_EQ(state_slots(setup), 3u);
}

TEST(ServerSetup, GroupsThatDifferAreNamed) {
  ServerSetup other = with_two_groups();
  other.groups = {1, 1};
  EXPECT_EQ(difference(with_two_groups(), other),
            "b is in the optimizer's group 0 there and 1 here");
  other = with_two_groups();
  other.rules[1].weight_decay = 0.25;
  EXPECT_EQ(difference(with_two_groups(), other),
            "the optimizer's group 1 is 'sgd weight_decay=0.5' there and 'sgd weight_decay=0.25' "
            "here");
  other.rules.pop_back();
  EXPECT_EQ(difference(with_two_groups(), other),
            "the optimizer has 2 groups of parameters there and 1 here");
}

TEST(ServerSetup, GroupsThatMakeNoSenseAreRefused) {
  ServerSetup setup = with_two_groups();
  setup.groups = {0, 2};
  EXPECT_THAT(message_of<BadInput>([&] { require_sense(setup, 1, 1); }),
              HasSubstr("of group 2, and there are 2"));
  setup.groups = {0};
  EXPECT_THAT(message_of<BadInput>([&] { require_sense(setup, 1, 1); }),
              HasSubstr("the groups of 1 parameters are told, and there are 2"));
  setup.groups.clear();
  setup.rules.clear();
  EXPECT_THAT(message_of<BadInput>([&] { require_sense(setup, 1, 1); }),
              HasSubstr("no update rule"));
}

}  // namespace
}  // namespace asup::ps
