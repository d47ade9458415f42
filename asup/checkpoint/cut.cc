#include "asup/checkpoint/cut.h"

namespace asup::checkpoint {

Shape Cut::part() const {
  Shape shape = whole;
  std::int64_t& size = shape.at(static_cast<std::size_t>(dimension));
  size = 0;
  for (const Range& range : ranges) size += range.size;
  return shape;
}

torch::Tensor Cut::part_of(const torch::Tensor& tensor) const {
  std::vector<torch::Tensor> parts;
  for (const Range& range : ranges)
    parts.push_back(tensor.narrow(dimension, range.begin, range.size));
  return torch::cat(parts, dimension);
}

const Cut* find_cut(const Cuts& cuts, const std::string& name) {
  const auto found = cuts.find(name.substr(name.rfind('/') + 1));
  return found == cuts.end() ? nullptr : &found->second;
}

}  // namespace asup::checkpoint
