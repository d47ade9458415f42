#include "asup/collective/algorithms/owners.h"

#include <algorithm>

#include "asup/collective/plan/build.h"
#include "asup/kernels/code.h"

namespace asup::collective {
namespace {

using kernels::kCodeBlock;

Cut block_of(int owner, Cut piece, int ranks) {
  const Cut block = cut(piece.size(), ranks, owner, kCodeBlock);
  return {piece.begin + block.begin, piece.begin + block.end};
}

// Where a lane has numbers in code: what it sends to owners, what it gets as an owner, and what
// others make of their blocks; for each, room for a block of every rank.
class Room {
 public:
  Room(int ranks, std::size_t longest, std::size_t begin)
      : ranks_(static_cast<std::size_t>(ranks)),
        block_(kernels::in_whole_code_blocks(longest)),
        begin_(begin) {}

  static std::size_t elements(int ranks, std::size_t longest) {
    return 3 * static_cast<std::size_t>(ranks) * kernels::in_whole_code_blocks(longest);
  }

  AreaRange leaving(int to, std::size_t size) const {
    return at(static_cast<std::size_t>(to), size);
  }
  AreaRange sum_of(int owner, std::size_t size) const {
    return at(ranks_ + static_cast<std::size_t>(owner), size);
  }
  // The parts of the others lie as closely as a reduce_parts wants them, in the order of ranks.
  AreaRange part_of(int from, int rank, std::size_t size) const {
    const auto place = static_cast<std::size_t>(from - (from > rank));
    const std::size_t begin = parts() + place * kernels::in_whole_code_blocks(size);
    return coded(begin, begin + size);
  }
  AreaRange all_parts(int rank, std::size_t size) const {
    const int last = static_cast<int>(ranks_) - 1;
    return coded(parts(), part_of(rank == last ? last - 1 : last, rank, size).end);
  }

 private:
  std::size_t parts() const { return begin_ + 2 * ranks_ * block_; }
  AreaRange at(std::size_t place, std::size_t size) const {
    return coded(begin_ + place * block_, begin_ + place * block_ + size);
  }

  const std::size_t ranks_, block_, begin_;
};

void add(Lane& lane, Round round) {
  if (!round.empty()) lane.push_back(std::move(round));
}

void write_piece(int rank, int ranks, Cut piece, const Room& room, Lane& lane) {
  const Cut own = block_of(rank, piece, ranks);
  Round encode, to_owners, sum, to_all, decode;
  for (int k = 1; k < ranks; ++k) {
    const int to = around(rank, k, ranks), from = around(rank, -k, ranks);
    const Cut theirs = block_of(to, piece, ranks);
    const AreaRange leaving = room.leaving(to, theirs.size());
    if (theirs.size() > 0) encode.push_back(copy(in(theirs), leaving));
    to_owners.push_back(send(to, leaving));
    to_owners.push_back(recv(from, room.part_of(from, rank, own.size())));

    to_all.push_back(send(to, room.sum_of(rank, own.size())));
    const Cut summed = block_of(from, piece, ranks);
    const AreaRange arriving = room.sum_of(from, summed.size());
    to_all.push_back(recv(from, arriving));
    if (summed.size() > 0) decode.push_back(copy(arriving, out(summed)));
  }
  if (own.size() > 0) {
    const AreaRange code = room.sum_of(rank, own.size());
    sum = {reduce_parts(room.all_parts(rank, own.size()), in(own), out(own)), copy(out(own), code),
           copy(code, out(own))};  // the owner takes what the others get
  }
  add(lane, std::move(encode));
  add(lane, std::move(to_owners));
  add(lane, std::move(sum));
  add(lane, std::move(to_all));
  add(lane, std::move(decode));
}

}  // namespace

Plan owners_all_reduce(int rank, const Spec& spec) {
  if (spec.ranks == 1) return alone(spec);
  const std::size_t block = cut(spec.count, spec.ranks, 0, kCodeBlock).size();
  const auto blocks = static_cast<int>(std::clamp<std::size_t>(block / kCodeBlock, 1, 1 << 20));
  const int pieces = std::min(pieces_for(block, spec), blocks);
  const std::size_t longest =
      block_of(0, cut(spec.count, pieces, 0, kCodeBlock), spec.ranks).size();
  const std::size_t of_lane = Room::elements(spec.ranks, longest);
  Plan plan;
  plan.lanes.resize(static_cast<std::size_t>(std::min(pieces, kMaxLanes)));
  for (int piece = 0; piece < pieces; ++piece) {
    const std::size_t lane = static_cast<std::size_t>(piece) % plan.lanes.size();
    write_piece(rank, spec.ranks, cut(spec.count, pieces, piece, kCodeBlock),
                Room(spec.ranks, longest, lane * of_lane), plan.lanes[lane]);
  }
  plan.coded = plan.lanes.size() * of_lane;
  return plan;
}

}  // namespace asup::collective
