#include "asup/kernels/rule.h"

#include <gtest/gtest.h>

#include <limits>

#include "asup/base/error.h"

namespace asup::kernels {
namespace {

using Kind = Rule::Kind;

TEST(Rule, SaysWhatItIs) {
  EXPECT_EQ(describe({}), "sgd weight_decay=0");
  EXPECT_EQ(describe({.kind = Kind::momentum, .momentum = 0.9, .weight_decay = 1e-4}),
            "momentum momentum=0.9 dampening=0 weight_decay=0.0001");
  EXPECT_EQ(describe({.kind = Kind::adam, .amsgrad = true}),
            "adam beta1=0.9 beta2=0.999 eps=1e-08 amsgrad=yes weight_decay=0");
}

TEST(Rule, TextKeepsEveryBit) {
  const double third = 1.0 / 3;
  const Rule rules[] = {
      {.kind = Kind::sgd, .weight_decay = third},
      {.kind = Kind::momentum, .momentum = third, .dampening = -third, .weight_decay = 1e-300},
      {.kind = Kind::nesterov, .momentum = 0.1 + 0.2},
      {.kind = Kind::rmsprop, .momentum = third, .alpha = third, .eps = third, .centered = true},
      {.kind = Kind::adagrad, .weight_decay = third, .eps = third},
      {.kind = Kind::adam, .eps = third, .beta1 = third, .beta2 = third, .amsgrad = true},
      {.kind = Kind::adamw, .weight_decay = third},
      {.kind = Kind::lars, .momentum = third, .trust = third},
      {.kind = Kind::lamb, .eps = third, .beta1 = third, .beta2 = third, .trust = third},
      {.kind = Kind::asup, .momentum = third, .alpha = third, .eps = third},
  };
  for (const Rule& rule : rules) EXPECT_EQ(parse_rule(describe(rule)), rule) << describe(rule);
}

TEST(Rule, KnowsItsState) {
  EXPECT_EQ(state_slots({.kind = Kind::sgd}), 0u);
  EXPECT_EQ(state_slots({.kind = Kind::momentum}), 1u);
  EXPECT_EQ(state_slots({.kind = Kind::nesterov}), 1u);
  EXPECT_EQ(state_slots({.kind = Kind::rmsprop}), 1u);
  EXPECT_EQ(state_slots({.kind = Kind::rmsprop, .momentum = 0.9}), 2u);
  EXPECT_EQ(state_slots({.kind = Kind::rmsprop, .centered = true}), 2u);
  EXPECT_EQ(state_slots({.kind = Kind::rmsprop, .momentum = 0.9, .centered = true}), 3u);
  EXPECT_EQ(state_slots({.kind = Kind::adagrad}), 1u);
  EXPECT_EQ(state_slots({.kind = Kind::adam}), 2u);
  EXPECT_EQ(state_slots({.kind = Kind::adamw, .amsgrad = true}), 3u);
  EXPECT_EQ(state_slots({.kind = Kind::lars}), 1u);
  EXPECT_EQ(state_slots({.kind = Kind::lamb}), 2u);
  EXPECT_EQ(state_slots({.kind = Kind::asup}), 2u);
}

TEST(Rule, KnowsItsMomentum) {
  for (const Kind kind : {Kind::adam, Kind::adamw, Kind::lamb})
    EXPECT_EQ(momentum_of({.kind = kind, .beta1 = 0.8}), 0.8) << name_of(kind);
  for (const Kind kind : {Kind::momentum, Kind::nesterov, Kind::rmsprop, Kind::lars, Kind::asup})
    EXPECT_EQ(momentum_of({.kind = kind, .momentum = 0.7}), 0.7) << name_of(kind);
  EXPECT_EQ(momentum_of({.kind = Kind::sgd}), 0);
}

TEST(Rule, OnlyLarsAndLambNeedWholeTensors) {
  for (const Kind kind : {Kind::sgd, Kind::momentum, Kind::nesterov, Kind::rmsprop, Kind::adagrad,
                          Kind::adam, Kind::adamw, Kind::asup})
    EXPECT_FALSE(needs_whole_tensors({.kind = kind})) << name_of(kind);
  for (const Kind kind : {Kind::lars, Kind::lamb}) {
    EXPECT_TRUE(needs_whole_tensors({.kind = kind}));
    EXPECT_FALSE(needs_whole_tensors(rule_of_vectors({.kind = kind})));
  }
}

std::string refusal(std::string_view text) {
  try {
    return "parsed: " + describe(parse_rule(text));
  } catch (const BadInput& error) {
    return error.what();
  }
}

TEST(ParseRule, RefusesNonsense) {
  EXPECT_EQ(refusal("adaam eps=1"),
            "update rule: there is no 'adaam'; did you mean 'adam'?; there are sgd, momentum, "
            "nesterov, rmsprop, adagrad, adam, adamw, lars, lamb, asup, merge");
  EXPECT_EQ(refusal("sgd"), "update rule sgd: '' stands where weight_decay=… was expected");
  EXPECT_EQ(refusal("sgd weight_decay"),
            "update rule sgd: 'weight_decay' stands where weight_decay=… was expected");
  EXPECT_EQ(refusal("sgd momentum=1"),
            "update rule sgd: 'momentum=1' stands where weight_decay=… was expected");
  EXPECT_EQ(refusal("sgd weight_decay=0 eps=1"), "update rule sgd: it has no 'eps=1'");
  EXPECT_EQ(refusal("sgd weight_decay=0 "),
            "update rule: 'sgd weight_decay=0 ' is written as 'sgd weight_decay=0'");
  EXPECT_EQ(refusal("sgd weight_decay=0.10"),
            "update rule: 'sgd weight_decay=0.10' is written as 'sgd weight_decay=0.1'");
  EXPECT_EQ(refusal("sgd weight_decay=0.1x"),
            "update rule sgd: weight_decay is '0.1x', which is no number");
  EXPECT_EQ(refusal("sgd weight_decay="),
            "update rule sgd: weight_decay is '', which is no number");
  EXPECT_EQ(refusal("adam beta1=0.9 beta2=0.9 eps=1 amsgrad=1 weight_decay=0"),
            "update rule adam: amsgrad is '1', which is neither yes nor no");
}

TEST(ParseRule, RefusesWhatIsOutOfRange) {
  EXPECT_EQ(refusal("sgd weight_decay=-1"),
            "update rule sgd: weight_decay is -1; it must be finite and at least 0");
  EXPECT_EQ(refusal("sgd weight_decay=nan"),
            "update rule sgd: weight_decay is nan; it must be finite and at least 0");
  EXPECT_EQ(refusal("momentum momentum=0.9 dampening=-inf weight_decay=0"),
            "update rule momentum: dampening is -inf; it must be finite");
  EXPECT_EQ(refusal("adam beta1=1 beta2=0.9 eps=1 amsgrad=no weight_decay=0"),
            "update rule adam: beta1 is 1; it must be at least 0 and below 1");
  EXPECT_EQ(refusal("rmsprop alpha=1.5 eps=1 momentum=0 centered=no weight_decay=0"),
            "update rule rmsprop: alpha is 1.5; it must be from 0 to 1");
}

TEST(RequireValid, RefusesOptionsOfOtherRules) {
  try {
    require_valid({.kind = Kind::sgd, .momentum = 0.9});
    ADD_FAILURE() << "sgd has no momentum";
  } catch (const BadInput& error) {
    EXPECT_STREQ(error.what(), "update rule sgd: it has no momentum, which is 0.9");
  }
  EXPECT_THROW(require_valid({.kind = Kind::nesterov, .momentum = 0.9, .dampening = 0.1}),
               BadInput);
  EXPECT_NO_THROW(require_valid({.kind = Kind::nesterov, .momentum = 0.9}));
}

}  // namespace
}  // namespace asup::kernels
