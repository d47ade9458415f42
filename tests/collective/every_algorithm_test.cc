// Every algorithm of the table, run for real on samples drawn at random: by threads over every kind
// of link, and by processes.
#include <gtest/gtest.h>

#include "asup/collective/mesh/mesh_communicator.h"
#include "tests/collective/sample.h"
#include "tests/support/processes.h"
#include "tests/support/ranks.h"

namespace asup::collective {
namespace {

using net::LinkKind;

void run_every_algorithm(Job& job, bool can_share) {
  CommunicatorOptions options;  // half of the groups as if on hosts of two ranks each
  for (int r = 0; job.size() % 2 == 0 && r < job.size(); ++r) options.hosts.push_back(r / 2);
  testing::run_every_algorithm(*make_communicator(job, options), can_share);
}

struct Case {
  LinkKind links;
  int ranks;
};

class EveryAlgorithm : public ::testing::TestWithParam<Case> {
 protected:
  bool can_share() const { return GetParam().links != LinkKind::tcp; }
};

TEST_P(EveryAlgorithm, AgreesWithTheReferenceOnThreads) {
  asup::testing::run_ranks(GetParam().ranks, GetParam().links,
                           [&](Job& job) { run_every_algorithm(job, can_share()); });
}

using OnProcesses = EveryAlgorithm;

TEST_P(OnProcesses, AgreesWithTheReference) {
  asup::testing::run_processes(GetParam().ranks, GetParam().links,
                               [&](Job& job) { run_every_algorithm(job, can_share()); });
}

std::vector<Case> cases(std::vector<LinkKind> kinds) {
  std::vector<Case> cases;
  for (const LinkKind links : kinds)
    for (int ranks = 1; ranks <= 8; ++ranks) cases.push_back({links, ranks});
  return cases;
}

std::string name_of_case(const ::testing::TestParamInfo<Case>& info) {
  return asup::testing::name_of(info.param.links) + "_" + std::to_string(info.param.ranks);
}

INSTANTIATE_TEST_SUITE_P(
    Links, EveryAlgorithm,
    ::testing::ValuesIn(cases({LinkKind::inproc, LinkKind::shm, LinkKind::tcp})), name_of_case);
INSTANTIATE_TEST_SUITE_P(Links, OnProcesses,
                         ::testing::ValuesIn(cases({LinkKind::shm, LinkKind::tcp})), name_of_case);

}  // namespace
}  // namespace asup::collective
