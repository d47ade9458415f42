// Every algorithm of the table is proven, for every number of ranks from 1 to 64. Larger groups are
// large_groups_test.cc's.
#include "asup/collective/plan/build.h"
#include "tests/collective/cases.h"

namespace asup::collective {
namespace {

using testing::AlgorithmTest;
using testing::expect_proven;

class Proven : public AlgorithmTest {};

TEST_P(Proven, ForEveryGroupAndCount) {
  for (int n = 1; n <= 64; ++n) {
    for (const Spec& spec : testing::specs_for(algorithm(), n)) expect_proven(algorithm(), spec);
  }
}

class ProvenWithRoot : public AlgorithmTest {};

TEST_P(ProvenWithRoot, ForEveryRoot) {
  for (const int n : {2, 3, 7, 8, 13, 32}) {
    for (int root = 0; root < n; ++root) {
      for (const bool in_place : {true, false}) {
        Spec spec = testing::spec_for(algorithm(), n, 1000);
        spec.root = root;
        spec.in_place = in_place;
        spec.slice = 64;
        expect_proven(algorithm(), spec);
      }
    }
  }
}

class ProvenWithCounts : public AlgorithmTest {};

TEST_P(ProvenWithCounts, ForUnevenBlocks) {
  for (int n = 1; n <= 40; ++n) {
    Spec spec = testing::spec_for(algorithm(), n, 0);
    testing::give_uneven_counts(spec);
    spec.root = n / 2;
    spec.slice = 100;
    expect_proven(algorithm(), spec);
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, Proven, testing::every_algorithm(), testing::name_of_row);
INSTANTIATE_TEST_SUITE_P(Algorithms, ProvenWithRoot, testing::every_algorithm(testing::has_root),
                         testing::name_of_row);
INSTANTIATE_TEST_SUITE_P(Algorithms, ProvenWithCounts,
                         testing::every_algorithm(testing::has_counts), testing::name_of_row);

}  // namespace
}  // namespace asup::collective
