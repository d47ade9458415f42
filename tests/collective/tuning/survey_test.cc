#include "asup/collective/tuning/survey.h"

#include <gtest/gtest.h>

#include <mutex>

#include "asup/collective/mesh/mesh_communicator.h"
#include "asup/collective/tuning/chooser.h"
#include "asup/collective/tuning/trial.h"
#include "tests/support/ranks.h"

namespace asup::collective::tuning {
namespace {

using asup::testing::run_ranks;
using net::LinkKind;

std::vector<SurveyRow> survey_of(int ranks, LinkKind links, const SurveyOptions& options) {
  std::vector<SurveyRow> rows;
  run_ranks(ranks, links, [&](Job& job) {
    auto communicator = make_communicator(job);
    const Surroundings around = surroundings_of(job);
    auto mine = survey(*communicator, around, usual_rates(around.near_link, 2), options);
    if (job.rank() == 0) rows = std::move(mine);
  });
  return rows;
}

TEST(Survey, TriesEveryAlgorithmThatCanRun) {
  for (const Collective collective : {Collective::all_reduce, Collective::reduce_scatter,
                                      Collective::all_gather, Collective::broadcast}) {
    for (const bool shared : {false, true}) {
      const auto rows = survey_of(
          3, LinkKind::inproc,
          {.collective = collective, .sizes = {4, 1 << 12}, .shared = shared, .seconds = 1e-4});
      ASSERT_EQ(rows.size(), 2u);
      std::size_t can_run = 0;
      for (const Algorithm& algorithm : algorithms())
        can_run += algorithm.collective == collective && (shared || !algorithm.needs_shared) &&
                   !algorithm.codes;
      for (const SurveyRow& row : rows) {
        EXPECT_EQ(row.cells.size(), can_run);
        for (const SurveyCell& cell : row.cells) {
          EXPECT_GT(cell.predicted, 0) << cell.algorithm->name;
          EXPECT_GE(cell.measured, row.cells[row.best].measured);
        }
      }
    }
  }
}

TEST(Survey, PicksWhatTheChooserWould) {
  const auto rows =
      survey_of(2, LinkKind::tcp,
                {.sizes = {1 << 10, 1 << 18}, .shared = false, .stage = false, .seconds = 1e-3});
  Chooser chooser(usual_rates("tcp", 2), {0, 0});
  for (const SurveyRow& row : rows) {
    const Spec spec{.collective = Collective::all_reduce, .ranks = 2, .count = row.bytes / 4};
    EXPECT_EQ(row.cells[row.picked].algorithm, &chooser.choose(spec, 4));
  }
}

TEST(Survey, ARowIsWrongWhereThePickIsMuchSlower) {
  const SurveyRow wrong{1024, {{nullptr, 1, 1.2}, {nullptr, 2, 1.0}}, 0, 1};
  const SurveyRow close{1024, {{nullptr, 1, 1.05}, {nullptr, 2, 1.0}}, 0, 1};
  EXPECT_TRUE(wrong.is_wrong());
  EXPECT_NEAR(wrong.lost(), 0.2, 1e-9);
  EXPECT_FALSE(close.is_wrong());
}

TEST(Trial, RefusesWhatItCannotCheck) {
  run_ranks(1, LinkKind::inproc, [](Job& job) {
    auto communicator = make_communicator(job);
    EXPECT_THROW(Trial(*communicator, Collective::gather, 4, false), BadInput);
  });
}

}  // namespace
}  // namespace asup::collective::tuning
