#include "asup/parallel/tensor_cut.h"

#include "asup/base/error.h"
#include "asup/tensors/tensors.h"

namespace asup::parallel {

IndexRange part_of(std::int64_t whole, int rank, int ranks) {
  const std::int64_t least = whole / ranks, longer = whole % ranks;
  return {least * rank + std::min<std::int64_t>(rank, longer), least + (rank < longer ? 1 : 0)};
}

std::vector<IndexRange> TensorCut::ranges(int rank, int ranks) const {
  std::vector<IndexRange> ranges;
  const std::int64_t block = whole / blocks;
  for (std::int64_t i = 0; i < blocks; ++i) {
    const IndexRange range = part_of(block, rank, ranks);
    ranges.push_back({i * block + range.begin, range.size});
  }
  return ranges;
}

std::int64_t TensorCut::size(int rank, int ranks) const {
  return blocks * part_of(whole / blocks, rank, ranks).size;
}

torch::Tensor part_of(const torch::Tensor& whole, const TensorCut& cut, int rank, int ranks) {
  check(whole.size(cut.dimension) == cut.whole, "a dimension of {} is cut as one of {}",
        whole.size(cut.dimension), cut.whole);
  std::vector<torch::Tensor> parts;
  for (const IndexRange& range : cut.ranges(rank, ranks))
    parts.push_back(whole.narrow(cut.dimension, range.begin, range.size));
  return torch::cat(parts, cut.dimension);
}

std::vector<std::int64_t> whole_shape(torch::IntArrayRef part, const TensorCut& cut) {
  std::vector<std::int64_t> shape = part.vec();
  shape.at(static_cast<std::size_t>(cut.dimension)) = cut.whole;
  return shape;
}

void put_part(torch::Tensor whole, const torch::Tensor& part, const TensorCut& cut, int rank,
              int ranks) {
  torch::NoGradGuard no_grad;
  std::int64_t at = 0;
  for (const IndexRange& range : cut.ranges(rank, ranks)) {
    whole.narrow(cut.dimension, range.begin, range.size)
        .copy_(part.narrow(cut.dimension, at, range.size));
    at += range.size;
  }
}

torch::Tensor put_together(Communicator& group, const torch::Tensor& own, const TensorCut& cut,
                           const char* what) {
  if (group.rank() > 0) {
    group.send(bytes_of(own), 0).or_throw(what);
    return own;
  }
  const torch::Tensor whole = torch::empty(whole_shape(own.sizes(), cut), own.options());
  put_part(whole, own, cut, 0, group.size());
  for (int rank = 1; rank < group.size(); ++rank) {
    std::vector<std::int64_t> shape = own.sizes().vec();
    shape.at(static_cast<std::size_t>(cut.dimension)) = cut.size(rank, group.size());
    const torch::Tensor part = torch::empty(shape, own.options());
    group.recv(bytes_of(part), rank).or_throw(what);
    put_part(whole, part, cut, rank, group.size());
  }
  return whole;
}

std::map<std::string, TensorCut> cuts_of(const torch::nn::Module& module) {
  std::map<std::string, TensorCut> cuts;
  const auto add = [&cuts](const std::string& place, const torch::nn::Module& each) {
    const auto* cut = dynamic_cast<const CutModule*>(&each);
    if (!cut) return;
    for (const auto& [name, how] : cut->cuts()) cuts.emplace(place + name, how);
  };
  add("", module);
  for (const auto& each : module.named_modules("", /*include_self=*/false))
    add(each.key() + ".", *each.value());
  return cuts;
}

}  // namespace asup::parallel
