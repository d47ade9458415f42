#include "asup/sync/model/model_parts.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

namespace asup::sync {

std::vector<NamedTensor> ModelParts::counted(const std::vector<NamedTensor>& parameters) const {
  std::vector<NamedTensor> counted = parameters;
  std::erase_if(counted, [&](const NamedTensor& each) {
    return std::ranges::find(copies, each.name) != copies.end();
  });
  return counted;
}

double ModelParts::norm(double here) const {
  if (is_whole()) return here;
  double squares = here * here;
  std::vector<double> of_parts(static_cast<std::size_t>(communicator->size()));
  communicator->all_gather(buffer_of(std::span(&squares, 1)), buffer_of(std::span(of_parts)))
      .or_throw("the norm of all parts");
  return std::sqrt(std::accumulate(of_parts.begin(), of_parts.end(), 0.0));
}

bool ModelParts::all(bool here) const {
  if (is_whole()) return here;
  std::int32_t not_so = here ? 0 : 1;
  communicator->all_reduce(buffer_of(std::span(&not_so, 1)), ReduceOp::max)
      .or_throw("agreeing on a step");
  return not_so == 0;
}

}  // namespace asup::sync
