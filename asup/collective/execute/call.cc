#include "asup/collective/execute/call.h"

#include <limits>

namespace asup::collective {
namespace {

constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();

// kMost where they are too many, which require_valid refuses.
std::size_t sum_of(const std::vector<std::size_t>& counts) {
  std::size_t sum = 0;
  for (const std::size_t count : counts) sum = count > kMost - sum ? kMost : sum + count;
  return sum;
}

// Of ranks that have a block each.
std::size_t whole_of(const Call& call, std::size_t block, int ranks) {
  if (!call.counts.empty()) return sum_of(call.counts);
  require(block <= kMost / static_cast<std::size_t>(ranks),
          "{}: {} elements on each of {} ranks are more than memory holds",
          name_of(call.collective), block, ranks);
  return block * static_cast<std::size_t>(ranks);
}

std::size_t count_of(const Call& call, int ranks) {
  switch (call.collective) {
    case Collective::reduce_scatter:
    case Collective::reduce:
      return call.input.count;
    case Collective::gather:
      return whole_of(call, call.input.count, ranks);
    case Collective::scatter:
      return whole_of(call, call.output.count, ranks);
    case Collective::all_to_all:
      return call.counts.empty() ? call.input.count : sum_of(call.counts);
    default:
      return call.output.count;
  }
}

bool has_elements(const Spec& spec, int rank) {
  if (spec.collective != Collective::all_to_all) return spec.counts[rank] > 0 || rank == spec.root;
  return spec.elements(Area::input, rank) > 0 || spec.elements(Area::output, rank) > 0;
}

}  // namespace

Spec spec_of(const Call& call, int ranks) {
  Spec spec;
  spec.collective = call.collective;
  spec.ranks = ranks;
  spec.count = count_of(call, ranks);
  spec.counts = call.counts;
  spec.root = call.root;
  spec.in_place = true;
  // Without elements, buffers may lie anywhere: that must not make calls look different.
  if (!spec.aliased() || (spec.count > 0 && call.input.data != call.output.data)) {
    spec.in_place = false;
  }
  return spec;
}

bool everyone_has_elements(const Spec& spec) {
  if (spec.count == 0) return false;
  const bool whole_everywhere =
      spec.collective == Collective::reduce_scatter || spec.collective == Collective::all_gather;
  if (spec.counts.empty() || whole_everywhere) return true;
  for (int rank = 0; rank < spec.ranks; ++rank) {
    if (!has_elements(spec, rank)) return false;
  }
  return true;
}

}  // namespace asup::collective
