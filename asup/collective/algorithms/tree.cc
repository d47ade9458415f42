#include "asup/collective/algorithms/tree.h"

#include "asup/collective/algorithms/binomial_tree.h"

namespace asup::collective {

Plan tree_all_reduce(int rank, const Spec& spec) {
  if (spec.ranks == 1) return alone(spec);
  const std::vector<int> children = children_of(rank, spec.ranks);
  return in_lanes(spec, spec.count, [&](Cut part) {
    Lane lane;
    AreaRange sum = in(part);
    for (const int child : children) {
      const bool last = rank == 0 && child == children.back();
      lane.push_back({recv_reduce(child, sum, out(part), last)});
      sum = out(part);
    }
    if (rank > 0) {
      lane.push_back({send(parent_of(rank), sum)});
      lane.push_back({recv(parent_of(rank), out(part))});
    }
    Round down;
    for (auto child = children.rbegin(); child != children.rend(); ++child) {
      down.push_back(send(*child, out(part)));  // the one with the most descendants first
    }
    if (!down.empty()) lane.push_back(std::move(down));
    return lane;
  });
}

}  // namespace asup::collective
