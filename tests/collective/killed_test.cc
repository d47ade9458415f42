// A process killed in the middle of any algorithm on any link: the others name it at once, and go
// on without it.
#include <gmock/gmock.h>
#include <signal.h>

#include <thread>

#include "asup/collective/mesh/mesh_communicator.h"
#include "tests/collective/sample.h"
#include "tests/support/processes.h"
#include "tests/support/ranks.h"

namespace asup::collective {
namespace {

using net::LinkKind;
using ::testing::HasSubstr;

constexpr int kRanks = 4;
constexpr int kKilled = 1;

struct Case {
  const Algorithm* algorithm;
  LinkKind links;
};

class Killed : public ::testing::TestWithParam<Case> {
 protected:
  const Algorithm& algorithm() const { return *GetParam().algorithm; }
  bool can_share() const { return GetParam().links != LinkKind::tcp; }

  void run_one(Communicator& communicator, std::mt19937& random) const {
    testing::run_sample(
        communicator, testing::draw_sample(algorithm(), communicator.size(), can_share(), random));
  }
};

TEST_P(Killed, IsNamedAndTheOthersGoOn) {
  std::mt19937 random(
      std::hash<std::string>{}(::testing::UnitTest::GetInstance()->current_test_info()->name()));
  const auto life = std::chrono::microseconds(2000 + random() % 20000);
  asup::testing::run_processes(
      kRanks, GetParam().links,
      [&](Job& job) {
        auto communicator = make_communicator(job);
        const Outcome all_are_here = communicator->barrier();
        std::jthread killer;
        if (job.rank() == kKilled) {
          killer = std::jthread([&] {
            std::this_thread::sleep_for(life);
            raise(SIGKILL);
          });
        }
        std::string told = all_are_here.message();  // it may be killed before others are past it
        while (told.empty()) {
          try {
            run_one(*communicator, random);
          } catch (const JobFailed& failure) {
            told = failure.what();
          }
        }
        EXPECT_THAT(told, HasSubstr("rank 1 ("));
        EXPECT_THAT(told, HasSubstr("was lost"));
        EXPECT_FALSE(communicator->barrier().ok()) << "broken until it is rebuilt";
        communicator->rebuild().or_throw();
        ASSERT_EQ(communicator->size(), kRanks - 1);
        std::mt19937 again(7);
        for (int i = 0; i < 3; ++i) run_one(*communicator, again);
      },
      kKilled);
}

std::vector<Case> cases() {
  std::vector<Case> cases;
  for (const LinkKind links : {LinkKind::shm, LinkKind::tcp})
    for (const Algorithm& algorithm : algorithms()) {
      const bool reaches = algorithm.needs_shared || algorithm.needs_stage;
      if (is_point_to_point(algorithm.collective) || (reaches && links == LinkKind::tcp)) continue;
      cases.push_back({&algorithm, links});
    }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Algorithms, Killed, ::testing::ValuesIn(cases()), [](const auto& info) {
  const Case& c = info.param;
  return fmt::format("{}_by_{}_over_{}", name_of(c.algorithm->collective), c.algorithm->name,
                     asup::testing::name_of(c.links));
});

}  // namespace
}  // namespace asup::collective
