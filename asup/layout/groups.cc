#include "asup/layout/groups.h"

#include <string_view>

namespace asup::layout {
namespace {

std::string_view module_of(const TensorShape& tensor) {
  const auto dot = tensor.name.rfind('.');
  return dot == std::string::npos ? std::string_view{}
                                  : std::string_view(tensor.name).substr(0, dot);
}

}  // namespace

std::vector<std::size_t> group_by_module(std::span<const TensorShape> tensors,
                                         std::uint64_t most_bytes) {
  std::vector<std::size_t> groups;
  std::uint64_t bytes = 0;  // of the last group
  for (std::size_t begin = 0; begin < tensors.size(); begin = groups.size()) {
    std::size_t end = begin;
    std::uint64_t more = 0;
    for (; end < tensors.size() && module_of(tensors[end]) == module_of(tensors[begin]); ++end)
      more += tensors[end].bytes();
    const bool joins = begin > 0 && bytes + more <= most_bytes;
    const std::size_t group = begin == 0 ? 0 : groups.back() + (joins ? 0 : 1);
    bytes = joins ? bytes + more : more;
    groups.insert(groups.end(), end - begin, group);
  }
  return groups;
}

}  // namespace asup::layout
