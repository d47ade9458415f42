// One call on its way through a mesh communicator: made by the caller, carried out under the lock.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "asup/base/timeline.h"
#include "asup/collective/communicator.h"
#include "asup/collective/execute/coalesced_buffers.h"
#include "asup/collective/execute/execute.h"
#include "asup/collective/execute/prepared.h"

namespace asup::collective {

struct PendingCall : Work::State {
  explicit PendingCall(net::Loop& loop) : loop(loop) {}

  bool done() const override { return is_done.load(std::memory_order_acquire); }
  // Moves the mesh on the caller's own thread until the call is done; its deadline ends it.
  Outcome wait() override {
    if (!done()) {
      const TimelineScope scope(Activity::wait, {.detail = name_of(envelope.collective).data()});
      const net::MeshLock lock(loop);
      is_waited_for = true;
      loop.drive([this] { return done(); }, Deadline::max());
    }
    return outcome;
  }
  void finish(Outcome how) {
    outcome = std::move(how);
    is_done.store(true, std::memory_order_release);
  }

  net::Loop& loop;

  // Constant once made.
  std::shared_ptr<const Prepared> prepared;
  Envelope envelope;
  Execution::Operands operands;
  std::shared_ptr<SharedMemory> stage;
  std::optional<CoalescedBuffers> coalesced;  // of a call with parts
  int first_lane = 0;
  Deadline deadline;
  Seconds silence{0};                    // as the call has it
  std::optional<TimelineLabels> labels;  // where its caller takes part in a timeline

  // Under the lock.
  std::array<std::byte, 2048> room;  // for the small things of small plans
  std::pmr::monotonic_buffer_resource memory{room.data(), room.size()};
  std::optional<Execution> execution;
  Clock::time_point began;  // where somebody is told
  Deadline ask_at;          // the others, where they are
  bool asked = false;       // they were, and have not all answered
  Deadline answers_due;
  std::vector<std::uint64_t> answers;  // calls started, by rank; kNoAnswer: none yet
  std::vector<int> waits;              // whose message each rank waits for; -1: nobody's
  bool is_waited_for = false;          // a caller stands still for it
  std::uint64_t endings_seen = 0;
  static constexpr std::uint64_t kNoAnswer = ~std::uint64_t{0};

  Outcome outcome;  // valid once is_done
  std::atomic<bool> is_done{false};
};

}  // namespace asup::collective
