#include "asup/collective/mesh/mesh_communicator_impl.h"

namespace asup::collective {

void MeshCommunicator::enqueue(const PendingCallPtr& pending) {
  if (!broken_.ok()) {
    pending->finish(broken_);
    return;
  }
  const Collective kind = pending->envelope.collective;
  if (!is_point_to_point(kind)) ++started_;
  const int queue = is_point_to_point(kind)
                        ? 1 + 2 * pending->envelope.root + (kind == Collective::recv ? 1 : 0)
                        : 0;
  queues_[queue].push_back(pending);
  ++pending_;
}

bool MeshCommunicator::progress() {
  bool moved = false;
  for (auto& [number, queue] : queues_)
    while (!queue.empty() && progress_queue(queue)) moved = true;
  return moved;
}

// Moves the first call of the queue; true when anything did.
bool MeshCommunicator::progress_queue(Queue& queue) {
  const PendingCallPtr pending = queue.front();
  try {
    if (!pending->execution) begin(*pending);
    const bool moved = pending->execution->advance();
    if (pending->execution->done()) {
      bytes_moved_ += pending->execution->bytes_moved();
      if (pending->coalesced) pending->coalesced->unpack();
      trace(TraceEvent::Kind::end, *pending);
      queue.pop_front();
      --pending_;
      pending->finish({});
      return true;
    }
    if (!moved || !pending->execution->mismatch().empty()) look_for_trouble(*pending);
    return moved && !pending->done();
  } catch (const std::exception& error) {
    failed(reason_of(error));
    return false;
  }
}

void MeshCommunicator::failed(const std::string& why) {
  fail({Outcome::Kind::broken, fmt::format("rank {}: {}", rank(), why)});
}

void MeshCommunicator::begin(PendingCall& pending) {
  if (pending.coalesced) pending.coalesced->pack();
  const Plan& plan = pending.prepared->plan;
  pending.operands.scratch = scratch_.at_least(plan.scratch * size_of(pending.envelope.dtype));
  pending.operands.coded = coded_.at_least(plan.coded * size_of(pending.envelope.dtype));
  pending.execution.emplace(group_, pending.prepared->spec, pending.envelope, plan,
                            pending.operands, &pending.memory, pending.first_lane);
  if (group_.trace) pending.began = Clock::now();
  trace(TraceEvent::Kind::begin, pending);
}

void MeshCommunicator::trace(TraceEvent::Kind kind, const PendingCall& pending) const {
  if (!group_.trace) return;
  group_.trace({.kind = kind,
                .communicator = group_.id,
                .sequence = pending.envelope.sequence,
                .spec = &pending.prepared->spec,
                .plan = &pending.prepared->plan,
                .since = pending.began,
                .labels = pending.labels ? &*pending.labels : nullptr});
}

}  // namespace asup::collective
