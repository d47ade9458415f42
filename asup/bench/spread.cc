#include "asup/bench/spread.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "asup/base/error.h"

namespace asup::bench {

double Spread::confidence() const {
  // Student's t for 97.5 %, by degrees of freedom; from 30 on it is nearly the normal one.
  constexpr std::array<double, 30> kStudent{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306,
                                            2.262,  2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
                                            2.110,  2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064,
                                            2.060,  2.056, 2.052, 2.048, 2.045, 2.042};
  if (runs < 2) return std::numeric_limits<double>::infinity();
  const double quantile = kStudent[std::min(runs - 1, kStudent.size()) - 1];
  return quantile * deviation / std::sqrt(static_cast<double>(runs));
}

Spread spread_of(const std::vector<double>& values) {
  Spread spread;
  spread.runs = values.size();
  for (const double value : values) spread.mean += value / static_cast<double>(values.size());
  for (const double value : values)
    spread.deviation += (value - spread.mean) * (value - spread.mean);
  spread.deviation =
      values.size() > 1 ? std::sqrt(spread.deviation / static_cast<double>(values.size() - 1)) : 0;
  return spread;
}

Spread paired(const std::vector<double>& one, const std::vector<double>& other) {
  check(one.size() == other.size(), "{} and {} runs make no pairs", one.size(), other.size());
  std::vector<double> differences;
  for (std::size_t i = 0; i < one.size(); ++i) differences.push_back(one[i] - other[i]);
  return spread_of(differences);
}

}  // namespace asup::bench
