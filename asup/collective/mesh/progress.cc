#include "asup/collective/mesh/class.h"

namespace asup::collective {

void MeshCommunicator::enqueue(TicketPtr ticket) {
  if (!broken_.ok()) {
    ticket->finish(broken_);
    return;
  }
  const Collective kind = ticket->envelope.collective;
  if (!is_point_to_point(kind)) ++started_;
  const int queue = is_point_to_point(kind)
                        ? 1 + 2 * ticket->envelope.root + (kind == Collective::recv ? 1 : 0)
                        : 0;
  queues_[queue].push_back(std::move(ticket));
  ++tickets_;
}

bool MeshCommunicator::progress() {
  bool moved = false;
  for (auto& [number, queue] : queues_)
    while (!queue.empty() && progress_queue(queue)) moved = true;
  return moved;
}

// Moves the first call of the queue; true when anything did.
bool MeshCommunicator::progress_queue(Queue& queue) {
  const TicketPtr ticket = queue.front();
  try {
    if (!ticket->execution) begin(*ticket);
    const bool moved = ticket->execution->advance();
    if (ticket->execution->done()) {
      bytes_moved_ += ticket->execution->bytes_moved();
      if (ticket->bundle) ticket->bundle->unpack();
      trace(TraceEvent::Kind::end, *ticket);
      queue.pop_front();
      --tickets_;
      ticket->finish({});
      return true;
    }
    if (!moved || !ticket->execution->mismatch().empty()) look_for_trouble(*ticket);
    return moved && !ticket->done();
  } catch (const std::exception& error) {
    fail({Outcome::Kind::broken, fmt::format("rank {}: {}", rank(), error.what())});
    return false;
  }
}

void MeshCommunicator::begin(Ticket& ticket) {
  if (ticket.bundle) ticket.bundle->pack();
  ticket.operands.scratch =
      scratch_.at_least(ticket.prepared->plan.scratch * size_of(ticket.envelope.dtype));
  ticket.execution.emplace(group_, ticket.prepared->spec, ticket.envelope, ticket.prepared->plan,
                           ticket.operands, &ticket.memory, ticket.first_lane);
  trace(TraceEvent::Kind::begin, ticket);
}

void MeshCommunicator::trace(TraceEvent::Kind kind, const Ticket& ticket) const {
  if (group_.trace)
    group_.trace({kind, group_.id, ticket.envelope.sequence, &ticket.prepared->spec,
                  &ticket.prepared->plan, 0, 0, 0});
}

}  // namespace asup::collective
