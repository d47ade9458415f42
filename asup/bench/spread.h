// Figures of several runs: their mean and how sure it is. Values only.
#pragma once

#include <vector>

namespace asup::bench {

struct Spread {
  double mean = 0;
  double deviation = 0;  // of one run, as estimated from these

  // Half the width of the interval that holds the true mean in 95 of 100 cases (Student's t);
  // nothing is known from one run: infinite.
  double confidence() const;
  std::size_t runs = 0;
};

Spread spread_of(const std::vector<double>& values);

// Of the differences of pairs, one - other, which share what they have in common (a seed).
// needs: as many of one as of the other
Spread paired(const std::vector<double>& one, const std::vector<double>& other);

}  // namespace asup::bench
