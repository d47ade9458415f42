#include "asup/collective/verify/verify.h"

#include <fmt/format.h>

#include "asup/base/error.h"
#include "asup/collective/verify/conflicts.h"
#include "asup/collective/verify/goal.h"
#include "asup/collective/verify/shape.h"
#include "asup/collective/verify/symbolic_run.h"

namespace asup::collective {
namespace {

void prove(const Spec& spec, const std::vector<Plan>& plans) {
  proof::check_shape(spec, plans);
  proof::check_rounds(spec, plans);
  proof::check_lanes(spec, plans);
  proof::SymbolicRun machine(spec, plans);
  machine.run();
  proof::check_goal(spec, machine);
}

// A send or recv and what its peer does. needs: ranks is 2
std::vector<Plan> pair_of(const Algorithm& algorithm, const Spec& spec) {
  const int caller = 1 - spec.root;
  Spec counterpart = spec;
  counterpart.collective =
      spec.collective == Collective::send ? Collective::recv : Collective::send;
  counterpart.root = caller;
  std::vector<Plan> plans(2);
  plans[caller] = algorithm.plan(caller, spec);
  plans[spec.root] =
      find_algorithm(counterpart.collective, algorithm.name).plan(spec.root, counterpart);
  return plans;
}

}  // namespace

std::string describe(const Flaw& flaw) {
  std::string place = fmt::format("rank {}", flaw.rank);
  if (flaw.lane >= 0) place += fmt::format(", lane {}", flaw.lane);
  if (flaw.round >= 0) place += fmt::format(", round {}", flaw.round);
  if (flaw.step >= 0) place += fmt::format(", step {}", flaw.step);
  return fmt::format("{}, {}: {}", place, describe(flaw.range), flaw.what);
}

std::optional<Flaw> verify(const Spec& spec, const std::vector<Plan>& plans) {
  require_valid(spec);
  require(!is_point_to_point(spec.collective) || spec.ranks == 2,
          "a {} is verified between 2 ranks, not {}", name_of(spec.collective), spec.ranks);
  require(static_cast<int>(plans.size()) == spec.ranks,
          "{} plans for {} ranks; there must be one for each", plans.size(), spec.ranks);
  try {
    prove(spec, plans);
  } catch (proof::Refuted& refuted) {
    return std::move(refuted.flaw);
  }
  return std::nullopt;
}

std::optional<Flaw> verify(const Algorithm& algorithm, const Spec& spec) {
  require_valid(spec);
  require(algorithm.collective == spec.collective, "'{}' is an algorithm for {}, not for {}",
          algorithm.name, name_of(algorithm.collective), name_of(spec.collective));
  if (is_point_to_point(spec.collective) && spec.ranks == 2) {
    return verify(spec, pair_of(algorithm, spec));
  }
  std::vector<Plan> plans;
  for (int rank = 0; rank < spec.ranks; ++rank) plans.push_back(algorithm.plan(rank, spec));
  return verify(spec, plans);
}

}  // namespace asup::collective
