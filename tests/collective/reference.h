// What a reduction must give, in double precision. Pure functions.
#pragma once

#include <algorithm>

#include "asup/base/dtype.h"

namespace asup::collective::testing {

// Of operand(rank) over all ranks.
template <typename Operand>
double reduced(ReduceOp op, int ranks, Operand operand) {
  double value = operand(0);
  for (int rank = 1; rank < ranks; ++rank) {
    const double next = operand(rank);
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::average:
        value += next;
        break;
      case ReduceOp::min:
        value = std::min(value, next);
        break;
      case ReduceOp::max:
        value = std::max(value, next);
        break;
      case ReduceOp::product:
        value *= next;
        break;
    }
  }
  return op == ReduceOp::average ? value / ranks : value;
}

}  // namespace asup::collective::testing
