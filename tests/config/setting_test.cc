#include "asup/config/setting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "asup/base/error.h"
#include "asup/config/field_or.h"
#include "asup/config/step_or_share.h"
#include "tests/support/thrown.h"

namespace asup::config {
namespace {

using asup::testing::message_of;
using ::testing::HasSubstr;

enum class Colour { red, green };
constexpr auto names_of(Colour) {
  return std::to_array<Named<Colour>>({{"red", Colour::red}, {"green", Colour::green}});
}

struct Options {
  std::int64_t count = 3;
  double rate = 0.5;
  bool quick = false;
  std::string name = "a";
  std::string kind = "sgd";
  Colour colour = Colour::red;
  StepOrShare after{};
  std::optional<std::int64_t> length{};
  std::optional<double> wait{};
};

const std::vector<Setting>& rows() {
  static const std::vector<Setting> all{
      {"count", field<&Options::count>(), "how many", kCount},
      {"rate", field<&Options::rate>(), "how fast", {0, 1, false, true}},
      {"quick", field<&Options::quick>(), "whether"},
      {"name", field<&Options::name>(), "who"},
      {"kind", field<&Options::kind>(), "what", {}, {"sgd", "adam"}},
      {"colour", field<&Options::colour>(), "which"},
      {"after", field<&Options::after>(), "when"},
      {"length", field_or<&Options::length, kAuto>(), "how long", kCount},
      {"wait", field_or<&Options::wait, kNone>(), "how patient", {0, 10, true, false}}};
  return all;
}

void assign(Options& options, std::string_view name, const Value& value) {
  const Setting& setting = *find(rows(), name);
  setting.field.assign(setting, &options, value, "--" + std::string(name));
}

std::string refusal(std::string_view name, const Value& value) {
  Options options;
  return message_of<BadInput>([&] { assign(options, name, value); });
}

std::string text(const Options& options, std::string_view name) {
  return find(rows(), name)->field.text(&options);
}

TEST(Setting, TextsBecomeValues) {
  Options options;
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"count", "96"},
                                                        {"rate", "1e-3"},
                                                        {"quick", "true"},
                                                        {"kind", "adam"},
                                                        {"colour", "green"},
                                                        {"after", "30%"}})
    assign(options, name, value);
  EXPECT_EQ(options.count, 96);
  EXPECT_EQ(options.rate, 1e-3);
  EXPECT_TRUE(options.quick);
  EXPECT_EQ(options.kind, "adam");
  EXPECT_EQ(options.colour, Colour::green);
  EXPECT_EQ(options.after, (StepOrShare{30, true}));
  EXPECT_EQ(text(options, "rate"), "0.001");
  EXPECT_EQ(text(options, "colour"), "green");
  EXPECT_EQ(text(options, "after"), "30%");
}

TEST(Setting, IsWrittenInTomlAsItIsReadThere) {
  Options options{.rate = 1, .name = "a \"b\" \\"};
  const auto toml = [&](std::string_view name) { return find(rows(), name)->field.toml(&options); };
  EXPECT_EQ(toml("count"), "3");
  EXPECT_EQ(toml("rate"), "1.0");
  EXPECT_EQ(toml("quick"), "false");
  EXPECT_EQ(toml("name"), "\"a \\\"b\\\" \\\\\"");
  EXPECT_EQ(toml("colour"), "\"red\"");
  EXPECT_EQ(toml("after"), "0");
}

TEST(Setting, TheHelpShowsItsForm) {
  EXPECT_EQ(find(rows(), "count")->form(), "N");
  EXPECT_EQ(find(rows(), "rate")->form(), "X");
  EXPECT_TRUE(find(rows(), "quick")->is_flag());
  EXPECT_EQ(find(rows(), "kind")->form(), "sgd|adam");
  EXPECT_EQ(find(rows(), "colour")->form(), "red|green");
  EXPECT_EQ(find(rows(), "after")->form(), "N|P%");
}

TEST(Setting, RefusalsSayNameValueAndWhatIsAllowed) {
  EXPECT_EQ(refusal("count", std::int64_t{0}),
            "--count: 0 is out of range (allowed: 1 … 1000000000)");
  for (const char* wrong : {"ten", "1.5", ""})
    EXPECT_EQ(refusal("count", wrong),
              fmt::format("--count: '{}' is not a whole number (allowed: 1 … 1000000000)", wrong));
  EXPECT_EQ(refusal("count", 1.5), "--count: 1.5 is not a whole number (allowed: 1 … 1000000000)");
  EXPECT_EQ(refusal("rate", "1"), "--rate: 1 is out of range (allowed: from 0, below 1)");
  EXPECT_THAT(refusal("rate", "nan"), HasSubstr("out of range"));
  EXPECT_EQ(refusal("quick", "maybe"), "--quick: 'maybe' is not true or false");
  EXPECT_EQ(refusal("kind", "sdg"), "--kind: 'sdg' is none of sgd, adam; did you mean 'sgd'?");
  EXPECT_EQ(refusal("colour", "gren"),
            "--colour: 'gren' is none of red, green; did you mean 'green'?");
  EXPECT_EQ(refusal("name", std::int64_t{3}), "--name: 3 is not a text");
  EXPECT_THAT(refusal("after", "late"),
              HasSubstr("--after: 'late' is not a number of steps, or a share of the run"));
}

TEST(Setting, ANumberMayBeLeftOpenByAWord) {
  Options options;
  EXPECT_EQ(text(options, "length"), "auto");
  EXPECT_EQ(find(rows(), "length")->field.toml(&options), "\"auto\"");
  EXPECT_EQ(find(rows(), "length")->form(), "N|auto");
  assign(options, "length", "7");
  assign(options, "wait", 0.5);
  EXPECT_EQ(options.length, 7);
  EXPECT_EQ(options.wait, 0.5);
  EXPECT_EQ(find(rows(), "length")->field.toml(&options), "7");
  assign(options, "length", "auto");
  assign(options, "wait", "none");
  EXPECT_EQ(options.length, std::nullopt);
  EXPECT_EQ(options.wait, std::nullopt);
  EXPECT_EQ(refusal("length", "0"),
            "--length: 0 is out of range (allowed: 1 … 1000000000, or auto)");
  EXPECT_EQ(refusal("length", "none"),
            "--length: 'none' is not a whole number (allowed: 1 … 1000000000, or auto)");
  EXPECT_EQ(refusal("wait", std::int64_t{0}),
            "--wait: 0 is out of range (allowed: above 0, up to 10, or none)");
}

TEST(Setting, WhatWouldHaveNoEffectMustBeAsUsual) {
  EXPECT_EQ(message_of<BadInput>(
                [] { require_usual(rows(), Options{.count = 4}, "count", "nobody counts"); }),
            "count = 4 has no effect: nobody counts. Leave it out.");
  EXPECT_NO_THROW(require_usual(rows(), Options{}, "count", "nobody counts"));
}

}  // namespace
}  // namespace asup::config
