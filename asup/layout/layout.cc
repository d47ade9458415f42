#include "asup/layout/layout.h"

#include <algorithm>

#include "asup/base/error.h"

namespace asup::layout {
namespace {

std::uint64_t elements_of_line(Dtype dtype) { return kCacheLine / size_of(dtype); }

std::uint64_t nearest_line(const Layout& layout, std::uint64_t element) {
  const std::uint64_t line = elements_of_line(layout.dtype);
  return std::min((element + line / 2) / line * line, layout.elements);
}

// The begin of a tensor, or the end of the space, that is nearest to `element`.
std::uint64_t nearest_tensor(const Layout& layout, std::uint64_t element) {
  const auto after = std::lower_bound(
      layout.tensors.begin(), layout.tensors.end(), element,
      [](const Layout::Tensor& tensor, std::uint64_t at) { return tensor.range.begin < at; });
  const std::uint64_t above = after == layout.tensors.end() ? layout.elements : after->range.begin;
  const std::uint64_t below = after == layout.tensors.begin() ? 0 : std::prev(after)->range.begin;
  return above - element < element - below ? above : below;
}

}  // namespace

Range intersection(Range a, Range b) {
  return {std::max(a.begin, b.begin), std::max(std::max(a.begin, b.begin), std::min(a.end, b.end))};
}

std::vector<Range> joined(std::span<const Range> ranges) {
  std::vector<Range> result;
  for (const Range& range : ranges) {
    if (range.empty()) continue;
    if (!result.empty() && result.back().end == range.begin)
      result.back().end = range.end;
    else
      result.push_back(range);
  }
  return result;
}

void pad_to_line(Layout& layout) {
  layout.elements = round_up(layout.elements, elements_of_line(layout.dtype));
}

void append(Layout& layout, std::size_t index, const TensorShape& shape) {
  const std::uint64_t begin = layout.elements;
  layout.elements += shape.elements;
  layout.tensors.push_back({index, shape.name, {begin, layout.elements}});
}

void append(Layout& layout, const Layout& other) {
  for (const auto& [index, name, range] : other.tensors)
    layout.tensors.push_back(
        {index, name, {layout.elements + range.begin, layout.elements + range.end}});
  layout.elements += other.elements;
}

Layout packed(const std::vector<TensorShape>& shapes, Dtype dtype) {
  Layout layout{.dtype = dtype};
  for (std::size_t i = 0; i < shapes.size(); ++i) append(layout, i, shapes[i]);
  return layout;
}

Layout aligned(const std::vector<TensorShape>& shapes, Dtype dtype) {
  Layout layout{.dtype = dtype};
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    append(layout, i, shapes[i]);
    pad_to_line(layout);
  }
  return layout;
}

Layout without_empty(Layout layout) {
  std::erase_if(layout.tensors, [](const Layout::Tensor& tensor) { return tensor.range.empty(); });
  return layout;
}

void require_sound(const Layout& layout) {
  std::uint64_t at = 0;
  for (const auto& [index, name, range] : layout.tensors) {
    require(range.begin >= at && range.begin < range.end && range.end <= layout.elements,
            "parameter {} cannot lie at elements {} to {}: the one before it ends at {}, the space "
            "at {}",
            name, range.begin, range.end, at, layout.elements);
    at = range.end;
  }
}

std::vector<Range> ranges_by_index(const Layout& layout, std::size_t count) {
  std::vector<Range> ranges(count);
  for (const Layout::Tensor& tensor : layout.tensors) ranges.at(tensor.index) = tensor.range;
  return ranges;
}

std::vector<Part> parts_in(const Layout& layout, Range range) {
  const auto& tensors = layout.tensors;
  auto at = std::partition_point(tensors.begin(), tensors.end(), [&](const Layout::Tensor& tensor) {
    return tensor.range.end <= range.begin;
  });
  std::vector<Part> parts;
  for (; at != tensors.end() && at->range.begin < range.end; ++at)
    if (const Range part = intersection(at->range, range); !part.empty())
      parts.push_back(
          {static_cast<std::size_t>(at - tensors.begin()), part.begin - at->range.begin, part});
  return parts;
}

std::vector<Range> cut_into_shards(const Layout& layout, std::size_t shards, bool whole_tensors) {
  std::vector<Range> ranges;
  std::uint64_t begin = 0;
  for (std::size_t shard = 1; shard <= shards; ++shard) {
    const auto even = static_cast<std::uint64_t>(static_cast<unsigned __int128>(layout.elements) *
                                                 shard / shards);
    std::uint64_t end = layout.elements;
    if (shard < shards)
      end = whole_tensors ? nearest_tensor(layout, even) : nearest_line(layout, even);
    ranges.push_back({begin, end});
    begin = end;
  }
  return ranges;
}

}  // namespace asup::layout
