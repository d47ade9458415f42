#include "asup/collective/algorithms/dissemination.h"

#include "asup/collective/plan/build.h"

namespace asup::collective {

Plan dissemination_barrier(int rank, const Spec& spec) {
  if (spec.ranks == 1) return {};
  Lane lane;
  for (int distance = 1; distance < spec.ranks; distance *= 2) {
    lane.push_back({
        send(around(rank, distance, spec.ranks), {}),
        recv(around(rank, -distance, spec.ranks), {}),
    });
  }
  return {.lanes = {std::move(lane)}, .scratch = 0};
}

}  // namespace asup::collective
