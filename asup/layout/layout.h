// Where tensors lie in flat memory: in a bucket of gradients, in the space that servers keep, in a
// model that travels as a whole. A pure function of shapes, so that members that agree on these
// agree on the layout. Values only; safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "asup/base/dtype.h"

namespace asup::layout {

inline constexpr std::uint64_t kCacheLine = 64;  // bytes

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Elements [begin, end) of a flat space.
struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  std::uint64_t size() const { return end - begin; }
  bool empty() const { return begin >= end; }
  bool contains(Range other) const { return begin <= other.begin && other.end <= end; }
  bool operator==(const Range&) const = default;
};

Range intersection(Range a, Range b);

// Ranges in order, those that touch as one, without those that are empty.
std::vector<Range> joined(std::span<const Range> ranges);

struct TensorShape {
  std::string name;
  std::uint64_t elements = 0;
  Dtype dtype = Dtype::f32;

  std::uint64_t bytes() const { return elements * size_of(dtype); }
};

// Between tensors and after the last there may be gaps: elements that are no tensor's.
struct Layout {
  struct Tensor {
    std::size_t index = 0;  // in the list that the layout was made of
    std::string name;
    Range range;
    bool operator==(const Tensor&) const = default;
  };

  Dtype dtype = Dtype::f32;
  std::vector<Tensor> tensors{};  // in the order of the flat space
  std::uint64_t elements = 0;     // of the whole space

  std::uint64_t bytes() const { return elements * size_of(dtype); }
  bool operator==(const Layout&) const = default;
};

// Makes the space longer: to the next cache line, by a tensor, by all of another layout.
void pad_to_line(Layout& layout);
void append(Layout& layout, std::size_t index, const TensorShape& shape);
void append(Layout& layout, const Layout& other);

// One tensor after the other: without gaps, or each on cache lines of its own.
Layout packed(const std::vector<TensorShape>& shapes, Dtype dtype = Dtype::f32);
Layout aligned(const std::vector<TensorShape>& shapes, Dtype dtype = Dtype::f32);

// The same space without tensors that have no elements.
Layout without_empty(Layout layout);

// Throws BadInput where tensors overlap, are empty, out of order or beyond the end.
void require_sound(const Layout& layout);

// By index, for a list of `count` tensors; empty for those that the layout does not have.
std::vector<Range> ranges_by_index(const Layout& layout, std::size_t count);

// What of a tensor lies in a range.
struct Part {
  std::size_t tensor = 0;    // its place in Layout::tensors
  std::uint64_t offset = 0;  // of the part's first element in the tensor
  Range range;               // of the flat space
  bool operator==(const Part&) const = default;
};
// In order, for tensors that have elements in the range.
std::vector<Part> parts_in(const Layout& layout, Range range);

// Cuts the space on cache lines, evenly; with `whole_tensors` only between tensors, as evenly as
// those allow. Where there are too many shards, some are empty.
std::vector<Range> cut_into_shards(const Layout& layout, std::size_t shards, bool whole_tensors);

}  // namespace asup::layout
