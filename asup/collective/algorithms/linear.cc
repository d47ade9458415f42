#include "asup/collective/algorithms/linear.h"

#include "asup/collective/plan/build.h"

namespace asup::collective {

Plan linear_gather(int rank, const Spec& spec) {
  if (spec.ranks == 1) return alone(spec);
  const std::vector<AreaRange> blocks = spec.blocks(Area::output);
  const AreaRange own = in(0, blocks[rank].size());
  if (rank != spec.root) return {.lanes = {{{send(spec.root, own)}}}, .scratch = 0};
  Round arriving;
  for (int k = 1; k < spec.ranks; ++k) {
    const int peer = around(rank, k, spec.ranks);
    arriving.push_back(recv(peer, blocks[peer]));
  }
  Lane lane = {std::move(arriving)};
  if (own.size() > 0) lane.push_back({copy(own, blocks[rank])});
  return {.lanes = {std::move(lane)}, .scratch = 0};
}

Plan linear_scatter(int rank, const Spec& spec) {
  if (spec.ranks == 1) return alone(spec);
  const std::vector<AreaRange> blocks = spec.blocks(Area::input);
  const AreaRange own = out(0, blocks[rank].size());
  if (rank != spec.root) return {.lanes = {{{recv(spec.root, own)}}}, .scratch = 0};
  Round leaving;
  for (int k = 1; k < spec.ranks; ++k) {
    const int peer = around(rank, k, spec.ranks);
    leaving.push_back(send(peer, blocks[peer]));
  }
  Lane lane = {std::move(leaving)};
  if (own.size() > 0) lane.push_back({copy(blocks[rank], own)});
  return {.lanes = {std::move(lane)}, .scratch = 0};
}

}  // namespace asup::collective
