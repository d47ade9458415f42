#include "asup/ps/server_setup.h"

#include <gmock/gmock.h>

#include "asup/base/error.h"
#include "tests/support/temporary_folder.h"

namespace asup::ps {
namespace {

using asup::testing::message_of;
using ::testing::HasSubstr;

ServerSetup setup_of(Layout layout, kernels::Rule::Kind rule = kernels::Rule::Kind::sgd) {
  ServerSetup setup;
  setup.layout = std::move(layout);
  setup.rule.kind = rule;
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

}  // namespace
}  // namespace asup::ps
