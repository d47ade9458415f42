#include "asup/collective/choose.h"

#include "asup/base/error.h"
#include "asup/collective/build.h"

namespace asup::collective {
namespace {

// The root of the binomial tree sends the whole ceil(log2 n) times, the chain once, but the chain's
// last rank waits for n - 2 slices more to come along (docs/algorithms.md has both costs).
std::string_view broadcast_by_size(const Spec& spec) {
  const int saved = log2_ceil(spec.ranks) - 1;  // sends of the whole
  if (saved <= 0) return "binomial";
  const std::size_t extra = static_cast<std::size_t>(spec.ranks - 2) * spec.slice;
  return spec.count > extra / saved ? "chain" : "binomial";
}

// Fewer elements are on their way sooner than ranks can meet twice.
constexpr std::size_t kStagedFrom = 8192;

const Algorithm& first_that_can(const Spec& spec) {
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective == spec.collective && (spec.shared || !algorithm.needs_shared) &&
        (spec.stage || !algorithm.needs_stage)) {
      return algorithm;
    }
  }
  throw Error(fmt::format("no algorithm for {}", name_of(spec.collective)));
}

}  // namespace

const Algorithm& choose(const Spec& spec, std::string_view name) {
  if (!name.empty()) {
    const Algorithm& named = find_algorithm(spec.collective, name);
    require(spec.shared || !named.needs_shared,
            "{} by '{}' needs buffers that all ranks share: all ranks on one host, buffers from "
            "Communicator::allocate; leave the choice to asup, or name another algorithm",
            name_of(spec.collective), name);
    require(spec.stage || !named.needs_stage,
            "{} by '{}' needs all ranks on one host; leave the choice to asup, or name another "
            "algorithm",
            name_of(spec.collective), name);
    return named;
  }
  if (spec.collective == Collective::broadcast && !spec.shared) {
    return find_algorithm(spec.collective, broadcast_by_size(spec));
  }
  if (spec.collective == Collective::all_reduce && !spec.shared && spec.stage &&
      spec.count >= kStagedFrom) {
    return find_algorithm(spec.collective, "staged");
  }
  return first_that_can(spec);
}

}  // namespace asup::collective
