// Which server keeps which parameters. All shared parameters lie in one flat space of elements; a
// shard is a contiguous range of it, and server s keeps shard s. A pure function of the layout and
// the number of servers, so that all members agree. Values only; safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace asup::ps {

// Elements [begin, end) of the flat space.
struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  std::uint64_t size() const { return end - begin; }
  bool empty() const { return begin >= end; }
  bool contains(Range other) const { return begin <= other.begin && other.end <= end; }
  bool operator==(const Range&) const = default;
};

Range intersection(Range a, Range b);

// Where each tensor lies. Between them there may be gaps (tensors start on cache lines): elements
// that belong to nobody, are always zero, and are trained like all others.
struct Layout {
  struct Tensor {
    std::string name;
    Range range;
    bool operator==(const Tensor&) const = default;
  };
  std::vector<Tensor> tensors;  // in the order of the flat space
  std::uint64_t elements = 0;   // of the whole space

  bool operator==(const Layout&) const = default;
};

// Throws BadInput where tensors overlap, are empty, out of order or beyond the end.
void require_sound(const Layout& layout);

// What of each tensor lies in this range, for those that have elements there.
std::vector<Range> tensors_in(const Layout& layout, Range range);

// Cuts on cache lines, evenly; with `whole_tensors` only between tensors, as evenly as those allow.
// Throws BadInput where there are more servers than parameters to keep.
std::vector<Range> cut_into_shards(const Layout& layout, int servers, bool whole_tensors);

}  // namespace asup::ps
