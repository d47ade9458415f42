#include "asup/ps/shard_map.h"

#include <algorithm>

#include "asup/base/error.h"

namespace asup::ps {
namespace {

constexpr std::uint64_t kLine = 16;  // elements of four bytes on a cache line

std::uint64_t nearest_line(std::uint64_t element) { return (element + kLine / 2) / kLine * kLine; }

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

void require_sound(const Layout& layout) {
  require(!layout.tensors.empty(), "there is no parameter to share");
  std::uint64_t at = 0;
  for (const auto& [name, range] : layout.tensors) {
    require(range.begin >= at && range.begin < range.end && range.end <= layout.elements,
            "parameter {} cannot lie at elements {} to {}: the one before it ends at {}, the space "
            "at {}",
            name, range.begin, range.end, at, layout.elements);
    at = range.end;
  }
}

std::vector<Range> tensors_in(const Layout& layout, Range range) {
  std::vector<Range> inside;
  for (const auto& tensor : layout.tensors)
    if (const Range part = intersection(tensor.range, range); !part.empty()) inside.push_back(part);
  return inside;
}

std::vector<Range> cut_into_shards(const Layout& layout, int servers, bool whole_tensors) {
  require(servers >= 1, "{} servers: at least one must keep the parameters", servers);
  std::vector<Range> shards;
  std::uint64_t at = 0;
  for (int server = 1; server <= servers; ++server) {
    const auto even =
        static_cast<std::uint64_t>(static_cast<unsigned __int128>(layout.elements) *
                                   static_cast<unsigned>(server) / static_cast<unsigned>(servers));
    std::uint64_t end = layout.elements;
    if (server < servers) end = whole_tensors ? nearest_tensor(layout, even) : nearest_line(even);
    end = std::min(end, layout.elements);
    require(end > at,
            "{} servers are more than the model can use: its {} parameters in {} tensors cannot be "
            "cut into as many shards{}; start fewer",
            servers, layout.elements, layout.tensors.size(),
            whole_tensors ? " of whole tensors" : " of at least a cache line");
    shards.push_back({at, end});
    at = end;
  }
  return shards;
}

}  // namespace asup::ps
