#include "asup/collective/tuning/choose.h"

#include "asup/base/error.h"
#include "asup/collective/plan/build.h"

namespace asup::collective {
namespace {

// Where two ways cross is taken from their prices (cost.h) at the usual rates (rates.h), for 2 to
// 256 ranks over memory, over TCP on one host and at 10 Gbit/s between hosts: the middle of the
// three, since a Spec says little about links. Near there the two take about as long.

// The root of the binomial tree sends or receives the whole ceil(log2 n) times, the chain once, but
// at the end of the chain n - 2 slices more have to come along (docs/algorithms.md has both costs),
// each with so many `steps` at every rank.
bool chain_is_shorter(const Spec& spec, std::size_t steps) {
  const int saved = log2_ceil(spec.ranks) - 1;  // times the whole
  if (saved <= 0) return false;
  const std::size_t extra = static_cast<std::size_t>(spec.ranks - 2) * steps * spec.slice;
  return spec.count > extra / saved;
}

// Around a direct plan every rank tells every other, twice. So few elements are there by then.
bool few_within_reach(const Spec& spec, std::size_t count) {
  return count < 1024 + 128 * static_cast<std::size_t>(spec.ranks);
}

// A few elements are with everybody sooner than two barriers take.
constexpr std::size_t kFewWithinReach = 2048;  // where ranks reach each other's buffers
constexpr std::size_t kFew = 8192;

std::string_view all_reduce_by_size(const Spec& spec) {
  if (spec.coded) return "owners";
  if (spec.count < (spec.shared ? kFewWithinReach : kFew)) return "recursive_doubling";
  return spec.shared ? "direct" : spec.stage ? "staged" : "ring";
}

std::string_view broadcast_by_size(const Spec& spec) {
  if (spec.shared) return "direct";
  return chain_is_shorter(spec, 1) ? "chain" : "binomial";
}

// A rank of the chain receives and adds up before it sends.
std::string_view reduce_by_size(const Spec& spec) {
  if (spec.shared && !few_within_reach(spec, spec.count)) return "direct";
  return chain_is_shorter(spec, 2) ? "chain" : "binomial";
}

// One rank has to send or take all blocks in any case. In a tree it has fewer messages to do, but
// the blocks have further to go, which pays only for many ranks and small blocks.
std::string_view gather_or_scatter_by_size(const Spec& spec) {
  constexpr int kMany = 32;
  constexpr std::size_t kSmallBlock = 256;
  if (spec.shared && !few_within_reach(spec, spec.count)) return "direct";
  const bool small = spec.count <= kSmallBlock * static_cast<std::size_t>(spec.ranks);
  return spec.ranks >= kMany && small ? "binomial" : "linear";
}

// Bruck's way sends every element log2(n) / 2 times, to have log2 n messages instead of n - 1.
std::string_view all_to_all_by_size(const Spec& spec) {
  constexpr int kSomeRanks = 4;  // fewer have as many messages either way
  constexpr std::size_t kSmallBlock = 2048;
  constexpr std::size_t kSmallBlockInMemory = 256;  // where a message costs little
  const auto ranks = static_cast<std::size_t>(spec.ranks);
  const std::size_t input = spec.counts.empty() ? spec.count : spec.count / ranks;  // of a rank
  if (spec.shared && !few_within_reach(spec, input)) return "direct";
  const bool small = input <= (spec.stage ? kSmallBlockInMemory : kSmallBlock) * ranks;
  return spec.ranks >= kSomeRanks && small ? "bruck" : "pairwise";
}

// Empty where size does not decide.
std::string_view name_by_size(const Spec& spec) {
  switch (spec.collective) {
    case Collective::all_reduce:
      return all_reduce_by_size(spec);
    case Collective::broadcast:
      return broadcast_by_size(spec);
    case Collective::reduce:
      return reduce_by_size(spec);
    case Collective::gather:
    case Collective::scatter:
      return gather_or_scatter_by_size(spec);
    case Collective::all_to_all:
      return all_to_all_by_size(spec);
    default:
      return {};
  }
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
         (spec.stage || !algorithm.needs_stage) && spec.coded == algorithm.codes;
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
    require(named.codes || !spec.coded,
            "{} by '{}' cannot carry numbers in a code; leave the choice to asup",
            name_of(spec.collective), name);
    return named;
  }
  const std::string_view by_size = name_by_size(spec);
  return by_size.empty() ? first_that_can(spec) : find_algorithm(spec.collective, by_size);
}

}  // namespace asup::collective
