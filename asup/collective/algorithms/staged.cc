#include "asup/collective/algorithms/staged.h"

#include <algorithm>

#include "asup/collective/plan/build.h"

namespace asup::collective {
namespace {

constexpr int kLanes = 2;
constexpr std::size_t kSlices = 2;  // of Spec::slice, between two barriers

// One lane's part of the stage: a slot for the slice that each rank reduces, and one for the
// result.
struct Stage {
  std::size_t begin;
  std::size_t slot;
  int ranks;

  std::size_t size() const { return static_cast<std::size_t>(ranks + 1) * slot; }
  AreaRange operand(int owner, std::size_t elements) const {
    return at(static_cast<std::size_t>(owner), elements);
  }
  AreaRange result(std::size_t elements) const {
    return at(static_cast<std::size_t>(ranks), elements);
  }

 private:
  AreaRange at(std::size_t index, std::size_t elements) const {
    return stage(begin + index * slot, begin + index * slot + elements);
  }
};

// needs: every slice fits a slot of the stage
void reduce_piece(int rank, const Spec& spec, const Cut& piece, const Stage& stage, Lane& lane) {
  std::vector<Cut> slices;
  for (int r = 0; r < spec.ranks; ++r) {
    const Cut part = cut(piece.size(), spec.ranks, r, kGrain);
    slices.push_back({piece.begin + part.begin, piece.begin + part.end});
  }
  Round leave, fetch, reduce;
  for (int k = 1; k < spec.ranks; ++k) {
    const int peer = around(rank, k, spec.ranks);
    const auto& [begin, end] = slices[peer];
    if (begin == end) continue;
    leave.push_back(copy(in(begin, end), stage.operand(peer, end - begin)));
    fetch.push_back(peer_read(peer, stage.result(end - begin), out(begin, end)));
  }
  if (const auto& [begin, end] = slices[rank]; begin < end) {
    const AreaRange sum = out(begin, end);
    reduce = {peer_reduce(stage.operand(rank, end - begin), in(begin, end), sum),
              copy(sum, stage.result(end - begin))};
  }
  const auto add = [&](Round round) {
    if (!round.empty()) lane.push_back(std::move(round));
  };
  add(leave);
  lane.push_back(signal_everyone(rank, spec.ranks));
  add(reduce);
  lane.push_back(signal_everyone(rank, spec.ranks));
  add(fetch);
}

}  // namespace

Plan staged_all_reduce(int rank, const Spec& spec) {
  if (spec.ranks == 1) return alone(spec);
  const std::size_t most = static_cast<std::size_t>(spec.ranks) * kSlices * spec.slice;
  const int pieces =
      static_cast<int>(std::max<std::size_t>(1, spec.count / most + (spec.count % most != 0)));
  const int lanes = std::min(pieces, kLanes);
  std::size_t slot = 0;
  for (int p = 0; p < pieces; ++p) {
    slot = std::max(slot,
                    cut(cut(spec.count, pieces, p, kGrain).size(), spec.ranks, 0, kGrain).size());
  }
  Plan plan;
  for (int l = 0; l < lanes; ++l) {
    const Stage stage = {plan.stage, slot, spec.ranks};
    Lane lane;
    for (int p = l; p < pieces; p += lanes) {
      reduce_piece(rank, spec, cut(spec.count, pieces, p, kGrain), stage, lane);
    }
    lane.push_back(signal_everyone(rank, spec.ranks));  // nobody reads our stage any more
    plan.lanes.push_back(std::move(lane));
    plan.stage += stage.size();
  }
  return plan;
}

}  // namespace asup::collective
