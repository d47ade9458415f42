#include "asup/report/progress.h"

#include <gtest/gtest.h>

namespace asup::report {
namespace {

TEST(Progress, ClassifiersAreToldByTheirAccuracy) {
  const RunFacts facts;
  EvalRecord test;
  test.test_accuracy = 0.9123;
  EXPECT_EQ(test_figure_name(facts), "test accuracy");
  EXPECT_EQ(test_figure(test, 2), "91.23 %");
  EXPECT_EQ(speed_unit(facts), "samples/s");
  EXPECT_EQ(speed(facts, 120), 120);
}

TEST(Progress, LanguageModelsAreToldByTheirPerplexity) {
  RunFacts facts;
  facts.tokens_per_sample = 64;
  EvalRecord test;
  test.test_perplexity = 5.25;
  EXPECT_EQ(test_figure_name(facts), "test perplexity");
  EXPECT_EQ(test_figure(test, 2), "5.250");
  EXPECT_EQ(speed_unit(facts), "tokens/s");
  EXPECT_EQ(speed(facts, 120), 120 * 64);
}

}  // namespace
}  // namespace asup::report
