// Runs one rank's plan over the links of a mesh: the only way a collective is ever carried out.
//
// Lanes advance independently; each posts a round's messages, waits for them all, and goes on.
// Memory steps run in tiles that stay in the cache, a few megabytes at a time, so that the mesh's
// other links are served in between. Everything here runs under the mesh's lock.
#pragma once

#include <functional>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "asup/base/buffer.h"
#include "asup/collective/coding.h"
#include "asup/collective/execute/envelope.h"
#include "asup/collective/execute/trace.h"
#include "asup/collective/plan/plan.h"
#include "asup/net/transport/mesh.h"

namespace asup::collective {

// What one execution needs to know of its communicator.
struct Group {
  net::Mesh& mesh;
  std::uint64_t id;
  int rank;
  std::vector<int> members;  // mesh ranks, by rank of the group
  TraceSink trace;

  net::Link& link(int peer) const { return mesh.link(members[static_cast<std::size_t>(peer)]); }
  int size() const { return static_cast<int>(members.size()); }
};

// Channel of a lane; point-to-point calls have one of their own.
inline constexpr int kPointToPointLane = 0xffff;
inline net::Channel channel_of(std::uint64_t group, int lane) {
  return group << 16 | static_cast<std::uint64_t>(lane);
}

class Execution {
 public:
  struct Operands {
    std::byte* input = nullptr;
    std::byte* output = nullptr;
    std::byte* scratch = nullptr;
    std::byte* stage = nullptr;
    std::byte* coded = nullptr;
    Coding coding{};
  };

  // The group, spec, plan and the operands' memory stay until the execution is gone, and so does
  // `memory`, where it keeps its own small things. `first_lane` is the channel of the plan's first
  // lane.
  Execution(const Group& group, const Spec& spec, const Envelope& envelope, const Plan& plan,
            Operands operands, std::pmr::memory_resource* memory, int first_lane = 0);
  ~Execution();
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  // Moves what can be moved; true when anything did.
  bool advance();
  bool done() const { return lanes_left_ == 0; }

  // Non-empty: a peer made another call; names both.
  const std::string& mismatch() const { return mismatch_; }
  // Ranks whose messages, or whose taking of ours, the current rounds wait for.
  std::vector<int> waiting_for() const;
  // Bytes sent, and moved through peers' memory.
  std::uint64_t bytes_moved() const { return bytes_moved_; }

 private:
  class Incoming;
  struct LaneRun;

  struct PeerMemory {
    std::byte* input = nullptr;
    std::byte* output = nullptr;
    std::byte* stage = nullptr;
  };

  bool advance_lane(LaneRun& lane);
  void post(LaneRun& lane);
  bool messages_done(const LaneRun& lane) const;
  int out_of_reach(const Round& round) const;
  void wait_for_reason(int peer);
  bool run_memory(LaneRun& lane);
  void run_tile(const Round& round, std::size_t begin, std::size_t count);
  void run_step(const Step& step, std::size_t begin, std::size_t count);
  void copy(const Step& step, std::size_t begin, std::size_t count);
  void traced_encode(const Step& step, std::size_t begin, std::size_t count);
  void encode(const Step& step, std::size_t begin, std::size_t count);
  void sum_codes(const Step& step, std::size_t begin, std::size_t count);
  void reduce_and_spread(std::span<const Step> steps, std::size_t begin, std::size_t count);
  void trace_round(const LaneRun& lane) const;
  bool check_envelope(int peer, net::ConstBytes head, std::uint64_t total, std::uint64_t expected);
  void find_memory(int peer, const Envelope& theirs);

  std::byte* at(const AreaRange& range, std::size_t offset = 0) const;
  float* floats_at(const AreaRange& range, std::size_t offset) const;
  std::byte* peer_at(int peer, const AreaRange& range, std::size_t offset) const;
  std::byte* base_of(int peer, Area area) const;
  bool in_code(const AreaRange& range) const {
    return range.area == Area::coded && operands_.coding.code != kernels::Code::none;
  }
  std::size_t bytes(const AreaRange& range) const {
    return in_code(range) ? kernels::coded_bytes(operands_.coding.code, range.size())
                          : range.size() * element_;
  }
  int divisor(const Step& step) const;

  const Group& group_;
  const Spec& spec_;
  const Envelope envelope_;
  const Plan& plan_;
  const Operands operands_;
  const std::size_t element_;  // bytes
  std::pmr::vector<PeerMemory> peers_;
  std::pmr::vector<LaneRun> lanes_;
  std::size_t lanes_left_;
  std::string mismatch_;
  std::optional<Deadline> give_up_at_;  // a peer's memory is gone
  std::uint64_t bytes_moved_ = 0;
};

}  // namespace asup::collective
