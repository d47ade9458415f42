#include "asup/collective/algorithms/direct.h"

#include "asup/collective/plan/build.h"

namespace asup::collective {
namespace {

Plan between_signals(int rank, const Spec& spec, Round work) {
  Lane lane = {signal_everyone(rank, spec.ranks)};
  if (!work.empty()) lane.push_back(std::move(work));
  lane.push_back(signal_everyone(rank, spec.ranks));
  return {.lanes = {std::move(lane)}, .scratch = 0};
}

// Only the root's memory is reached by others, so only the root has something to announce and to
// wait for.
Plan around_root(int rank, const Spec& spec, Round work) {
  Round announce, done;
  if (rank != spec.root) {
    announce = {recv(spec.root, {})};
    done = {send(spec.root, {})};
  } else {
    for (int k = 1; k < spec.ranks; ++k) {
      const int peer = around(rank, k, spec.ranks);
      announce.push_back(send(peer, {}));
      done.push_back(recv(peer, {}));
    }
  }
  std::erase_if(work, [](const Step& step) { return step.dst.size() == 0; });
  Lane lane = {announce};
  if (!work.empty()) lane.push_back(std::move(work));
  lane.push_back(done);
  return {.lanes = {std::move(lane)}, .scratch = 0};
}

// What `sender` has for `receiver`, in its input.
AreaRange leaving_to(int receiver, int sender, const Spec& spec) {
  if (spec.counts.empty()) return in(cut(spec.count, spec.ranks, receiver));
  return spec.leaving(sender)[receiver];
}

}  // namespace

// Rank r alone touches slice r, of every rank's memory: in place, a slice is overwritten by its
// only reader, and only after it was read.
Plan direct_all_reduce(int rank, const Spec& spec) {
  if (spec.ranks == 1) return alone(spec);
  const Cut slice = cut(spec.count, spec.ranks, rank, kGrain);
  Round work;
  if (slice.size() > 0) {
    const AreaRange result = out(slice.begin, slice.end);
    work.push_back(peer_reduce(in(slice.begin, slice.end), result));
    for (int k = 1; k < spec.ranks; ++k) {
      work.push_back(peer_write(around(rank, k, spec.ranks), result, result));
    }
  }
  return between_signals(rank, spec, std::move(work));
}

Plan direct_reduce_scatter(int rank, const Spec& spec) {
  if (spec.ranks == 1) return alone(spec);
  const AreaRange block = spec.block(Area::input, rank);
  Round work;
  if (block.size() > 0) work.push_back(peer_reduce(block, out(0, block.size())));
  return between_signals(rank, spec, std::move(work));
}

// Every rank fetches; starting at its right neighbour spreads the readers over the memories.
Plan direct_all_gather(int rank, const Spec& spec) {
  if (spec.ranks == 1) return alone(spec);
  const std::vector<AreaRange> blocks = spec.blocks(Area::output);
  Round work;
  for (int k = 0; k < spec.ranks; ++k) {
    const int peer = around(rank, k, spec.ranks);
    const AreaRange block = blocks[peer], theirs = in(0, block.size());
    if (block.size() == 0) continue;
    work.push_back(k == 0 ? copy(theirs, block) : peer_read(peer, theirs, block));
  }
  return between_signals(rank, spec, std::move(work));
}

Plan direct_broadcast(int rank, const Spec& spec) {
  if (spec.ranks == 1) return alone(spec);
  const AreaRange from = in(0, spec.count), to = out(0, spec.count);
  Round work;
  if (rank != spec.root) {
    work = {peer_read(spec.root, from, to)};
  } else if (!spec.aliased()) {
    work = {copy(from, to)};
  }
  return around_root(rank, spec, std::move(work));
}

// In place, a slice of the root is overwritten by its only reader, and only after it was read.
Plan direct_reduce(int rank, const Spec& spec) {
  if (spec.ranks == 1) return alone(spec);
  const Cut slice = cut(spec.count, spec.ranks, rank, kGrain);
  const bool root = rank == spec.root;
  const AreaRange sum = root ? out(slice) : scratch(0, slice.size());
  Round work;
  if (slice.size() > 0) work.push_back(peer_reduce(in(slice), sum));
  if (slice.size() > 0 && !root) work.push_back(peer_write(spec.root, sum, out(slice)));
  Plan plan = between_signals(rank, spec, std::move(work));
  if (!root) plan.scratch = slice.size();
  return plan;
}

Plan direct_gather(int rank, const Spec& spec) {
  if (spec.ranks == 1) return alone(spec);
  const AreaRange to = spec.block(Area::output, rank), from = in(0, to.size());
  return around_root(rank, spec,
                     {rank == spec.root ? copy(from, to) : peer_write(spec.root, from, to)});
}

Plan direct_scatter(int rank, const Spec& spec) {
  if (spec.ranks == 1) return alone(spec);
  const AreaRange from = spec.block(Area::input, rank), to = out(0, from.size());
  return around_root(rank, spec,
                     {rank == spec.root ? copy(from, to) : peer_read(spec.root, from, to)});
}

Plan direct_all_to_all(int rank, const Spec& spec) {
  if (spec.ranks == 1) return alone(spec);
  const std::vector<AreaRange> arriving = spec.arriving(rank);
  Round work;
  for (int k = 0; k < spec.ranks; ++k) {
    const int peer = around(rank, k, spec.ranks);
    if (arriving[peer].size() == 0) continue;
    const AreaRange theirs = leaving_to(rank, peer, spec);
    work.push_back(k == 0 ? copy(theirs, arriving[peer]) : peer_read(peer, theirs, arriving[peer]));
  }
  return between_signals(rank, spec, std::move(work));
}

}  // namespace asup::collective
