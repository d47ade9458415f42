#include "asup/collective/algorithms/bruck.h"

#include <algorithm>

#include "asup/collective/plan/build.h"

namespace asup::collective {
namespace {

// The output's ranges that hold `many` blocks from `first` on, round the circle: two where they go
// over the end.
std::vector<AreaRange> runs_of(const std::vector<AreaRange>& blocks, int first, int many) {
  const int ranks = static_cast<int>(blocks.size());
  const int straight = std::min(many, ranks - first);
  std::vector<AreaRange> runs = {out(blocks[first].begin, blocks[first + straight - 1].end)};
  if (straight < many) runs.push_back(out(0, blocks[many - straight - 1].end));
  return runs;
}

// Sizes of all blocks of an all_to_all.
class BlockSizes {
 public:
  explicit BlockSizes(const Spec& spec) : spec_(spec) {
    for (int r = 0; spec.counts.empty() && r < spec.ranks; ++r) {
      even_.push_back(cut(spec.count, spec.ranks, r).size());
    }
  }

  // Of the block that `sender` has for the rank `distance` places further on.
  std::size_t from(int sender, int distance) const {
    const int receiver = around(sender, distance, spec_.ranks);
    if (!even_.empty()) return even_[receiver];
    return spec_.counts[static_cast<std::size_t>(sender) * spec_.ranks + receiver];
  }

 private:
  const Spec& spec_;
  std::vector<std::size_t> even_;  // by receiver; empty where the Spec has counts
};

// Adds a copy to the round, as a part of the last one where it goes on from there.
void add_copy(AreaRange src, AreaRange dst, Round& round) {
  if (src.size() == 0) return;
  if (!round.empty()) {
    Step& last = round.back();
    if (last.src.area == src.area && last.src.end == src.begin && last.dst.area == dst.area &&
        last.dst.end == dst.begin) {
      last.src.end = src.end;
      last.dst.end = dst.end;
      return;
    }
  }
  round.push_back(copy(src, dst));
}

// One rank's blocks on their way, by the distance they have to go in all.
class Travellers {
 public:
  Travellers(int rank, const Spec& spec) : rank_(rank), ranks_(spec.ranks), sizes_(spec) {
    const std::vector<AreaRange> leaving = spec.leaving(rank);
    for (int d = 0; d < ranks_; ++d) at_.push_back(leaving[around(rank, d, ranks_)]);
    for (int hop = 1; hop < ranks_; hop *= 2) packed_ = std::max(packed_, leaving_in(hop));
    used_ = packed_;
  }

  // The blocks that have `hop` in their way go on by so many places.
  void go(int hop, Lane& lane) {
    Round pack;
    std::size_t packed = 0;
    const std::size_t first = used_;
    for (int d = hop; d < ranks_; ++d) {
      if (!(d & hop)) continue;
      add_copy(at_[d], scratch(packed, packed + at_[d].size()), pack);
      packed += at_[d].size();
      // It came to the rank before by the lower bits of its way.
      const int sender = around(rank_, -hop - d % hop, ranks_);
      const std::size_t size = sizes_.from(sender, d);
      at_[d] = scratch(used_, used_ + size);
      used_ += size;
    }
    if (!pack.empty()) lane.push_back(std::move(pack));
    lane.push_back({send(around(rank_, hop, ranks_), scratch(0, packed)),
                    recv(around(rank_, -hop, ranks_), scratch(first, used_))});
  }

  void arrive(const std::vector<AreaRange>& arriving, Lane& lane) const {
    Round unpack;
    for (int d = 0; d < ranks_; ++d) add_copy(at_[d], arriving[around(rank_, -d, ranks_)], unpack);
    if (!unpack.empty()) lane.push_back(std::move(unpack));
  }

  std::size_t scratch_used() const { return used_; }

 private:
  std::size_t leaving_in(int hop) const {
    std::size_t sum = 0;
    for (int d = hop; d < ranks_; ++d) {
      if (d & hop) sum += sizes_.from(around(rank_, -(d % hop), ranks_), d);
    }
    return sum;
  }

  const int rank_, ranks_;
  const BlockSizes sizes_;
  std::vector<AreaRange> at_;  // by distance
  std::size_t packed_ = 0;     // elements of the longest message, packed at the front of scratch
  std::size_t used_ = 0;       // of scratch
};

}  // namespace

Plan bruck_all_gather(int rank, const Spec& spec) {
  if (spec.ranks == 1) return alone(spec);
  const std::vector<AreaRange> blocks = spec.blocks(Area::output);
  Lane lane;
  if (blocks[rank].size() > 0) lane.push_back({copy(in(0, blocks[rank].size()), blocks[rank])});
  for (int held = 1; held < spec.ranks; held *= 2) {
    const int many = std::min(held, spec.ranks - held);
    const int before = around(rank, -held, spec.ranks), after = around(rank, held, spec.ranks);
    Round round;
    for (const AreaRange& run : runs_of(blocks, rank, many)) round.push_back(send(before, run));
    for (const AreaRange& run : runs_of(blocks, after, many)) round.push_back(recv(after, run));
    lane.push_back(std::move(round));
  }
  return {.lanes = {std::move(lane)}, .scratch = 0};
}

Plan bruck_all_to_all(int rank, const Spec& spec) {
  if (spec.ranks == 1) return alone(spec);
  Travellers travellers(rank, spec);
  Lane lane;
  for (int hop = 1; hop < spec.ranks; hop *= 2) travellers.go(hop, lane);
  travellers.arrive(spec.arriving(rank), lane);
  return {.lanes = {std::move(lane)}, .scratch = travellers.scratch_used()};
}

}  // namespace asup::collective
