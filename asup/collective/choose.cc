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

// A few elements are with everybody sooner than ranks can meet twice.
constexpr std::size_t kFewWithinReach = 2048;  // where ranks reach each other's buffers
constexpr std::size_t kFew = 8192;

std::string_view all_reduce_by_size(const Spec& spec) {
  if (spec.count < (spec.shared ? kFewWithinReach : kFew)) return "recursive_doubling";
  return spec.shared ? "direct" : spec.stage ? "staged" : "ring";
}

const Algorithm& first_that_can(const Spec& spec) {
  for (const Algorithm& algorithm : algorithms()) {
    if (can_serve(algorithm, spec)) return algorithm;
  }
  throw Error(fmt::format("no algorithm for {}", name_of(spec.collective)));
}

}  // namespace

bool can_serve(const Algorithm& algorithm, const Spec& spec) {
  return algorithm.collective == spec.collective && (spec.shared || !algorithm.needs_shared) &&
         (spec.stage || !algorithm.needs_stage);
}

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
  if (spec.collective == Collective::all_reduce) {
    return find_algorithm(spec.collective, all_reduce_by_size(spec));
  }
  return first_that_can(spec);
}

}  // namespace asup::collective
