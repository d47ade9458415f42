#include "asup/collective/verify/symbolic_run.h"

#include <algorithm>

namespace asup::collective::proof {

SymbolicRun::SymbolicRun(const Spec& spec, const std::vector<Plan>& plans)
    : spec_(spec), plans_(plans), terms_(spec.ranks), memory_(spec, plans, terms_) {
  if (spec.collective == Collective::barrier || any_reaches_peer(plans))
    order_.emplace(spec, plans);
}

void SymbolicRun::run() {
  const int lanes = lanes_of(plans_);
  for (int lane = 0; lane < lanes; ++lane) {
    if (order_) order_->begin_lane();
    run_lane(spec_, plans_, lane, pair_messages(spec_, plans_, lane), *this);
    if (order_) order_->end_lane(lane);
  }
}

void SymbolicRun::pass(const Message& message) {
  if (message.size > 0) carry(message);
  if (order_) order_->pass(message.send.rank, message.recv.rank);
}

void SymbolicRun::carry(const Message& message) {
  const Step& sent = step_at(plans_, message.send);
  const Step& received = step_at(plans_, message.recv);
  const int from = message.send.rank, to = message.recv.rank;
  if ((sent.src.area == Area::coded) != (received.dst.area == Area::coded)) {
    refute(message.recv, received.dst, "{}: only one of sender and receiver has it in code",
           describe(received));
  }
  if (order_) {
    for_each_access(spec_, from, sent, [&](const Access& a) { order_->access(message.send, a); });
    for_each_access(spec_, to, received,
                    [&](const Access& a) { order_->access(message.recv, a, a.write ? from : -1); });
  }
  memory_.load(message.send, from, sent.src, values_);
  if (received.op == Step::Op::recv_reduce) {
    memory_.load(message.recv, to, received.src, operand_);
    add(message.recv, received, &Contributions::add);
  }
  store(message.recv, to, received);
}

void SymbolicRun::work(const Site& site, const Round& round) {
  Site at = site;
  for (const Step& step : round) {
    if (order_) {
      for_each_access(spec_, at.rank, step, [&](const Access& a) { order_->access(at, a); });
    }
    work_step(at, step);
    ++at.step;
  }
}

void SymbolicRun::work_step(const Site& site, const Step& step) {
  if (!step.sums_all()) {
    const int from = step.op == Step::Op::peer_read ? step.peer : site.rank;
    memory_.load(site, from, step.src, values_);
  }
  for (int r = 0; step.sums_all() && r < spec_.ranks; ++r) {
    const auto [owner, range] = operand(step, site.rank, r);
    memory_.load(site, owner, range, r == 0 ? values_ : operand_);
    if (r > 0) add(site, step, &Contributions::extend);
  }
  const bool encodes = step.dst.area == Area::coded && step.src.area != Area::coded;
  for (Piece& piece : values_)
    if (encodes) piece.term = terms_.code(piece.term);
  store(site, step.op == Step::Op::peer_write ? step.peer : site.rank, step);
}

void SymbolicRun::end_round(int rank) {
  if (order_) order_->end_round(rank);
}

void SymbolicRun::add(const Site& site, const Step& step,
                      Contributions::Id (Contributions::*how)(Contributions::Id,
                                                              Contributions::Id)) {
  sum_.clear();
  auto a = values_.begin(), b = operand_.begin();
  for (std::size_t at = 0; a != values_.end() && b != operand_.end();) {
    const std::size_t end = std::min(a->end, b->end);
    const AreaRange here = {step.dst.area, step.dst.begin + at, step.dst.begin + end};
    if (a->element != b->element) {
      refute(site, here, "adds element {} of the whole to element {}",
             a->element + static_cast<std::ptrdiff_t>(at),
             b->element + static_cast<std::ptrdiff_t>(at));
    }
    if (const auto twice = terms_.common_rank(a->term, b->term)) {
      refute(site, here, "adds the contribution of rank {} a second time", *twice);
    }
    sum_.push_back({at, end, (terms_.*how)(a->term, b->term), a->element});
    if (a->end == end) ++a;
    if (b->end == end) ++b;
    at = end;
  }
  values_.swap(sum_);
}

void SymbolicRun::store(const Site& site, int owner, const Step& step) {
  if (step.finish) {
    for (Piece& piece : values_) {
      const AreaRange here = {step.dst.area, step.dst.begin + piece.begin,
                              step.dst.begin + piece.end};
      if (!terms_.is_complete(piece.term)) {
        refute(site, here, "finishes {}, which holds the contributions of {} only", describe(here),
               terms_.describe(piece.term));
      }
      if (terms_.is_finished(piece.term)) {
        refute(site, here, "finishes {} a second time", describe(here));
      }
      piece.term = terms_.finish(piece.term);
    }
  }
  memory_.store(site, owner, step.dst, values_);
}

}  // namespace asup::collective::proof
