// What the theory of random pairs says of a graph, computed, for tests to compare with.
//
// S. Boyd, A. Ghosh, B. Prabhakar, D. Shah, "Randomized gossip algorithms", IEEE Transactions on
// Information Theory 52(6), 2006: when one worker at a time, each equally likely, averages with one
// of its partners, each equally likely, the squared distance of all from their mean falls in
// expectation by the second largest eigenvalue of
//   E[W] = I - 1/n · sum over i and its partners j of 1/deg(i) · (e_i - e_j)(e_i - e_j)^T / 2.
#pragma once

#include <cmath>
#include <numeric>
#include <vector>

#include "asup/gossip/graph.h"

namespace asup::gossip::testing {

using Values = std::vector<double>;  // one a worker

inline double mean_of(const Values& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

inline double squared_distance(const Values& values) {
  const double mean = mean_of(values);
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return sum;
}

// E[W] applied to values.
inline Values expected(const Graph& graph, const Values& values) {
  Values result = values;
  const auto ranks = static_cast<double>(graph.ranks());
  for (int i = 0; i < graph.ranks(); ++i) {
    const std::vector<int> partners = graph.partners(i);
    for (const int j : partners) {
      const auto a = static_cast<std::size_t>(i), b = static_cast<std::size_t>(j);
      const double move =
          (values[b] - values[a]) / 2 / ranks / static_cast<double>(partners.size());
      result[a] += move;
      result[b] -= move;
    }
  }
  return result;
}

// The second largest eigenvalue, by power iteration beside the first's vector.
inline double contraction(const Graph& graph) {
  Values values(static_cast<std::size_t>(graph.ranks()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(1.0 + double(i * i));
  double eigenvalue = 0;
  for (int round = 0; round < 3000; ++round) {
    const double mean = mean_of(values);
    for (double& value : values) value -= mean;
    const double before = std::sqrt(squared_distance(values));
    for (double& value : values) value /= before;
    values = expected(graph, values);
    eigenvalue = std::sqrt(squared_distance(values));
  }
  return eigenvalue;
}

}  // namespace asup::gossip::testing
