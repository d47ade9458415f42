// Every algorithm of the table is proven for groups as large as they come.
#include "tests/collective/cases.h"

namespace asup::collective {
namespace {

class LargeGroups : public testing::AlgorithmTest {};

// Blocks of two or three grains, so that no piece is empty and edges are not all alike.
void expect_proven(const Algorithm& algorithm, int n) {
  Spec spec = testing::spec_for(algorithm, n, static_cast<std::size_t>(n) * 160 + 7);
  spec.in_place = testing::knows_in_place(algorithm.collective);
  spec.root = n / 3;
  for (int r = 0; r < n; ++r) spec.hosts.push_back(r / 8);
  testing::expect_proven(algorithm, spec);
}

TEST_P(LargeGroups, AreProven) {
  for (const int n : {100, 127, 128, 255, 256}) expect_proven(algorithm(), n);
}

TEST_P(LargeGroups, SoakHundredsOfRanks) {
  for (const int n : {600, 1000, 1024}) expect_proven(algorithm(), n);
}

INSTANTIATE_TEST_SUITE_P(Algorithms, LargeGroups, testing::every_algorithm(), testing::name_of_row);

}  // namespace
}  // namespace asup::collective
