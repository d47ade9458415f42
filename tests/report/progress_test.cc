#include "asup/report/progress.h"

#include <gtest/gtest.h>

namespace asup::report {
namespace {

TEST(Progress, ClassifiersAreToldByTheirAccuracy) {
  const RunFacts facts;
  EvalRecord test;
  test.accuracy = 0.9123;
  EXPECT_EQ(test_figure_name(facts), "test accuracy");
  EXPECT_EQ(test_figure(test, 2), "91.23 %");
  EXPECT_EQ(speed_unit(facts), "samples/s");
  EXPECT_EQ(speed(facts, 120), 120);
}

TEST(Progress, LanguageModelsAreToldByTheirPerplexity) {
  RunFacts facts;
  facts.tokens_per_sample = 64;
  EvalRecord test;
  test.perplexity = 5.25;
  EXPECT_EQ(test_figure_name(facts), "test perplexity");
  EXPECT_EQ(test_figure(test, 2), "5.250");
  EXPECT_EQ(speed_unit(facts), "tokens/s");
  EXPECT_EQ(speed(facts, 120), 120 * 64);
}

TEST(Progress, TheTestAtTheEndAndValidationAreToldApart) {
  EXPECT_EQ(test_figure_name(RunFacts(), /*validation=*/true), "validation accuracy");
  Summary summary;
  summary.test = EvalRecord{.accuracy = 0.5, .top5 = 0.75};
  summary.validation = EvalRecord{.accuracy = 0.625, .validation = true};
  summary.best = BestTest{1200, 0.625, 3};
  summary.ended_early = true;
  const std::string block = result_block(summary, Terminal(-1));
  EXPECT_NE(block.find("test accuracy        50.00 %"), std::string::npos) << block;
  EXPECT_NE(block.find("test top-5           75.00 %"), std::string::npos) << block;
  EXPECT_NE(block.find("validation accuracy  62.50 %"), std::string::npos) << block;
  EXPECT_NE(block.find("better than that after step 1,200, 3 tests ago"), std::string::npos)
      << block;
}

}  // namespace
}  // namespace asup::report
