// What memory a step touches. Pure functions.
#pragma once

#include "asup/collective/plan/plan.h"

namespace asup::collective::proof {

struct Access {
  int owner;        // whose memory
  AreaRange range;  // input stands as output where the two are one memory
  bool write;
};

inline AreaRange resolve(const Spec& spec, int owner, AreaRange range) {
  if (range.area == Area::input && spec.aliased(owner)) range.area = Area::output;
  return range;
}

inline bool reaches_peer(const Step& step) {
  return step.op == Step::Op::peer_reduce || step.op == Step::Op::peer_write ||
         step.op == Step::Op::peer_read;
}

inline bool reduces(const Step& step) {
  return step.op == Step::Op::recv_reduce || step.sums_all();
}

// Calls visit(Access) for each of a step's accesses that is not empty, reads first.
template <typename Visit>
void for_each_access(const Spec& spec, int rank, const Step& step, Visit visit) {
  using Op = Step::Op;
  auto touch = [&](int owner, const AreaRange& range, bool write) {
    if (range.size() > 0) visit(Access{owner, resolve(spec, owner, range), write});
  };
  if (step.sums_all()) {
    for (int r = 0; r < spec.ranks; ++r) {
      const auto [owner, range] = operand(step, rank, r);
      touch(owner, range, false);
    }
  } else if (step.op != Op::recv) {
    touch(step.op == Op::peer_read ? step.peer : rank, step.src, false);
  }
  if (step.op != Op::send) touch(step.op == Op::peer_write ? step.peer : rank, step.dst, true);
}

}  // namespace asup::collective::proof
