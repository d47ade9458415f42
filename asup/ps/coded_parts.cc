#include "asup/ps/coded_parts.h"

#include <algorithm>

namespace asup::ps {

bool CodedParts::hold(Range range) const {
  return std::ranges::any_of(
      ranges, [&](const Range& coded) { return !range.empty() && coded.contains(range); });
}

bool CodedParts::touch(Range range) const {
  return std::ranges::any_of(
      ranges, [&](const Range& coded) { return !intersection(coded, range).empty(); });
}

std::vector<CodedParts::Piece> CodedParts::cut(Range range) const {
  std::vector<Piece> pieces;
  std::uint64_t at = range.begin;
  const auto add_plain = [&](std::uint64_t end) {
    if (at < end) pieces.push_back({{at, end}, false});
    at = std::max(at, end);
  };
  for (const Range& coded : ranges) {
    const Range inside = intersection(coded, range);
    if (inside.empty()) continue;
    add_plain(inside.begin);
    for (; at < inside.end; at = pieces.back().range.end)
      pieces.push_back({{at, std::min(at + kMostCoded, inside.end)}, true});
  }
  add_plain(range.end);
  return pieces;
}

CodedParts coded_parts(const ServerSetup& setup) {
  CodedParts parts{.code = setup.code};
  std::vector<Range> ranges;
  for (const std::uint32_t tensor : setup.coded)
    ranges.push_back(setup.layout.tensors[tensor].range);
  parts.ranges = layout::joined(ranges);
  return parts;
}

}  // namespace asup::ps
