#include "asup/collective/execute/execute.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "asup/base/error.h"
#include "asup/kernels/copy.h"
#include "asup/kernels/reduce.h"

namespace asup::collective {
namespace {

constexpr std::size_t kTileBytes = 4 * 1024;  // of one operand; many fit the L1 cache
static_assert(kTileBytes / sizeof(float) % kernels::kCodeBlock == 0);
constexpr std::size_t kTurnBytes = 2 * 1024 * 1024;  // memory steps between looks at the links
constexpr std::chrono::seconds kReasonComes{1};
constexpr std::size_t kLongBytes = 16 * 1024;  // sleepers need not wait for less

// A reduction that is written on from where it lands: one pass over memory does both.
bool reduces_and_spreads(const Round& round) {
  const Step& first = round.front();
  return first.sums_all() && first.src.area != Area::coded &&
         std::all_of(round.begin() + 1, round.end(), [&](const Step& step) {
           return (step.op == Step::Op::copy || step.op == Step::Op::peer_write) &&
                  step.src == first.dst;
         });
}

// As many as there are ranks, without memory from the heap where they are few.
template <typename Pointer>
class Pointers {
 public:
  explicit Pointers(std::size_t count) : many_(count > few_.size() ? count : 0), count_(count) {}
  Pointer& operator[](std::size_t i) { return many_.empty() ? few_[i] : many_[i]; }
  std::span<const Pointer> all() const {
    return {many_.empty() ? few_.data() : many_.data(), count_};
  }

 private:
  std::array<Pointer, 64> few_;
  std::vector<Pointer> many_;
  std::size_t count_;
};

}  // namespace

// One recv or recv_reduce step under way.
class Execution::Incoming : public net::Receiver {
 public:
  void start(Execution& execution, const Step& step) {
    execution_ = &execution;
    step_ = &step;
    got_ = 0;
    done = false;
  }

  bool begin(net::ConstBytes head, std::uint64_t total) override {
    return execution_->check_envelope(step_->peer, head, total, execution_->bytes(step_->dst));
  }
  net::Bytes room() override {
    if (step_->op == Step::Op::recv_reduce) return {};
    return {execution_->at(step_->dst) + got_, execution_->bytes(step_->dst) - got_};
  }
  void advance(std::size_t bytes) override { got_ += bytes; }
  void take(net::ConstBytes bytes) override {
    std::byte* to = execution_->at(step_->dst) + got_;
    if (step_->op == Step::Op::recv_reduce)
      kernels::reduce(execution_->envelope_.dtype, execution_->envelope_.op, to,
                      execution_->at(step_->src) + got_, bytes.data(),
                      bytes.size() / execution_->element_, execution_->divisor(*step_));
    else
      std::memcpy(to, bytes.data(), bytes.size());
    got_ += bytes.size();
  }
  void end() override { done = true; }

  int peer() const { return step_->peer; }
  bool done = false;

 private:
  Execution* execution_ = nullptr;
  const Step* step_ = nullptr;
  std::size_t got_ = 0;
};

struct Execution::LaneRun {
  explicit LaneRun(std::pmr::memory_resource* memory)
      : sends(memory), send_peers(memory), receives(memory) {}

  const Lane* lane = nullptr;
  int number = 0;
  net::Channel channel = 0;
  std::size_t round = 0;
  bool posted = false;
  std::size_t offset = 0;  // of the elements that a memory round has done
  std::pmr::vector<net::Outgoing> sends;
  std::pmr::vector<int> send_peers;
  std::pmr::vector<Incoming> receives;  // links hold their addresses while a round is posted
  std::size_t receiving = 0;            // used of `receives`

  const Round& current() const { return (*lane)[round]; }
};

Execution::Execution(const Group& group, const Spec& spec, const Envelope& envelope,
                     const Plan& plan, Operands operands, std::pmr::memory_resource* memory,
                     int first_lane)
    : group_(group),
      spec_(spec),
      envelope_(envelope),
      plan_(plan),
      operands_(operands),
      element_(size_of(envelope.dtype)),
      peers_(group.members.size(), memory),
      lanes_(memory),
      lanes_left_(plan.lanes.size()) {
  lanes_.reserve(plan.lanes.size());
  for (std::size_t i = 0; i < plan.lanes.size(); ++i) {
    LaneRun& run = lanes_.emplace_back(memory);
    run.lane = &plan.lanes[i];
    run.number = static_cast<int>(i);
    run.channel = channel_of(group.id, first_lane + run.number);
  }
}

Execution::~Execution() = default;

bool Execution::advance() {
  bool moved = false;
  for (LaneRun& lane : lanes_)
    if (mismatch_.empty() && lane.round < lane.lane->size()) moved = advance_lane(lane) || moved;
  if (lanes_left_ > 0)  // a plan's lane may be empty
    lanes_left_ = static_cast<std::size_t>(std::count_if(
        lanes_.begin(), lanes_.end(), [](const LaneRun& l) { return l.round < l.lane->size(); }));
  return moved;
}

// Goes through as many rounds as it can without waiting.
bool Execution::advance_lane(LaneRun& lane) {
  bool moved = false;
  while (lane.round < lane.lane->size()) {
    const Round& round = lane.current();
    if (!round.empty() && !round.front().is_message()) {
      if (const int peer = out_of_reach(round); peer >= 0) {
        wait_for_reason(peer);
        return moved;
      }
      if (!run_memory(lane)) return true;
    } else {
      if (!lane.posted) {
        post(lane);
        moved = true;
      }
      if (!messages_done(lane)) return moved;
    }
    trace_round(lane);
    ++lane.round;
    lane.posted = false;
    moved = true;
  }
  return moved;
}

void Execution::post(LaneRun& lane) {
  const Round& round = lane.current();
  lane.sends.clear();
  lane.sends.reserve(round.size());
  lane.send_peers.clear();
  lane.send_peers.reserve(round.size());
  lane.receiving = 0;
  if (lane.receives.size() < round.size()) lane.receives.resize(round.size());
  for (const Step& step : round) {
    if (step.op == Step::Op::send) {
      const net::ConstBytes payload{at(step.src), bytes(step.src)};
      lane.sends.push_back({std::as_bytes(std::span(&envelope_, 1)), payload});
      lane.send_peers.push_back(step.peer);
      group_.link(step.peer).send(lane.channel, lane.sends.back());
      bytes_moved_ += payload.size();
    } else {
      Incoming& incoming = lane.receives[lane.receiving++];
      incoming.start(*this, step);
      group_.link(step.peer).receive(lane.channel, incoming);
    }
  }
  lane.posted = true;
}

bool Execution::messages_done(const LaneRun& lane) const {
  for (const net::Outgoing& send : lane.sends)
    if (!send.done) return false;
  for (std::size_t i = 0; i < lane.receiving; ++i)
    if (!lane.receives[i].done) return false;
  return true;
}

std::vector<int> Execution::waiting_for() const {
  std::vector<int> ranks;
  for (const LaneRun& lane : lanes_) {
    if (!lane.posted) continue;
    for (std::size_t i = 0; i < lane.sends.size(); ++i)
      if (!lane.sends[i].done) ranks.push_back(lane.send_peers[i]);
    for (std::size_t i = 0; i < lane.receiving; ++i)
      if (!lane.receives[i].done) ranks.push_back(lane.receives[i].peer());
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

bool Execution::check_envelope(int peer, net::ConstBytes head, std::uint64_t total,
                               std::uint64_t expected) {
  Envelope theirs;
  if (head.size() == sizeof theirs) std::memcpy(&theirs, head.data(), sizeof theirs);
  if (head.size() != sizeof theirs || !theirs.same_call(envelope_) || total != expected) {
    if (mismatch_.empty())
      mismatch_ = fmt::format("rank {} calls {}; rank {} calls {}", group_.rank,
                              envelope_.describe(), peer, theirs.describe());
    return false;
  }
  find_memory(peer, theirs);
  return true;
}

void Execution::find_memory(int peer, const Envelope& theirs) {
  PeerMemory& memory = peers_[static_cast<std::size_t>(peer)];
  const auto reach = [&](std::uint32_t region, std::uint64_t offset, std::size_t elements) {
    return group_.mesh.reach(group_.members[static_cast<std::size_t>(peer)], {region, offset},
                             elements * element_);
  };
  if (envelope_.flags & Envelope::kShared && !memory.output) {
    memory.input =
        reach(theirs.input_region, theirs.input_offset, spec_.elements(Area::input, peer));
    memory.output =
        reach(theirs.output_region, theirs.output_offset, spec_.elements(Area::output, peer));
  }
  // Plans of one call have stages of one size.
  if (plan_.stage > 0 && !memory.stage) memory.stage = reach(theirs.stage_region, 0, plan_.stage);
}

// A rank whose memory the round needs and this rank cannot see; -1: none.
int Execution::out_of_reach(const Round& round) const {
  const auto hidden = [&](int peer, const AreaRange& range) {
    return peer != group_.rank && base_of(peer, range.area) == nullptr;
  };
  for (const Step& step : round) {
    if (step.op == Step::Op::peer_read && hidden(step.peer, step.src)) return step.peer;
    if (step.op == Step::Op::peer_write && hidden(step.peer, step.dst)) return step.peer;
    for (int peer = 0; step.op == Step::Op::peer_reduce && peer < group_.size(); ++peer)
      if (hidden(peer, step.src)) return peer;
  }
  return -1;
}

// The peer has said where its memory is, so that it was there: it has given up since, and the
// reason is on its way.
void Execution::wait_for_reason(int peer) {
  const auto now = group_.mesh.loop().now();
  if (!give_up_at_) give_up_at_ = now + kReasonComes;
  check(now < *give_up_at_, "rank {} reaches for rank {}'s memory, which it cannot see",
        group_.rank, peer);
}

// True when the round is through. The steps see each tile in their order while it is in the cache.
bool Execution::run_memory(LaneRun& lane) {
  const Round& round = lane.current();
  const std::size_t size = round.front().dst.size();
  if (size * element_ > kLongBytes) group_.mesh.wake_sleepers();  // this takes a while
  const bool tiled = std::all_of(round.begin(), round.end(),
                                 [&](const Step& step) { return step.dst.size() == size; });
  if (!tiled) {
    for (const Step& step : round) run_step(step, 0, step.dst.size());
    return true;
  }
  const std::size_t pause = std::min(size, lane.offset + kTurnBytes / element_);
  if (reduces_and_spreads(round)) {
    reduce_and_spread(round, lane.offset, pause - lane.offset);
    lane.offset = pause;
  }
  const std::size_t tile = kTileBytes / element_;
  for (; lane.offset < pause; lane.offset += std::min(tile, pause - lane.offset))
    run_tile(round, lane.offset, std::min(tile, pause - lane.offset));
  if (lane.offset < size) return false;
  lane.offset = 0;
  return true;
}

void Execution::run_tile(const Round& round, std::size_t begin, std::size_t count) {
  for (const Step& step : round) run_step(step, begin, count);
}

void Execution::run_step(const Step& step, std::size_t begin, std::size_t count) {
  if (count == 0) return;
  const std::size_t bytes = count * element_;
  switch (step.op) {
    case Step::Op::copy:
      copy(step, begin, count);
      break;
    case Step::Op::peer_read:
      kernels::copy(at(step.dst, begin), peer_at(step.peer, step.src, begin), bytes);
      bytes_moved_ += bytes;
      break;
    case Step::Op::peer_write:
      kernels::copy(peer_at(step.peer, step.dst, begin), at(step.src, begin), bytes);
      bytes_moved_ += bytes;
      break;
    case Step::Op::reduce_parts:
    case Step::Op::peer_reduce:
      if (in_code(step.src))
        sum_codes(step, begin, count);
      else
        reduce_and_spread({&step, 1}, begin, count);
      break;
    default:
      throw Error("a message among memory steps");
  }
}

void Execution::copy(const Step& step, std::size_t begin, std::size_t count) {
  if (in_code(step.dst) == in_code(step.src)) {
    if (at(step.dst, begin) == at(step.src, begin)) return;  // a block that lies in its place
    kernels::copy(at(step.dst, begin), at(step.src, begin),
                  bytes({step.src.area, step.src.begin, step.src.begin + count}));
  } else if (in_code(step.dst)) {
    traced_encode(step, begin, count);
  } else {
    kernels::decode(operands_.coding.code, floats_at(step.dst, begin), at(step.src, begin), count);
  }
}

void Execution::traced_encode(const Step& step, std::size_t begin, std::size_t count) {
  if (!group_.trace) return encode(step, begin, count);
  const auto since = Clock::now();
  encode(step, begin, count);
  group_.trace({.kind = TraceEvent::Kind::encode,
                .communicator = group_.id,
                .sequence = envelope_.sequence,
                .spec = &spec_,
                .plan = &plan_,
                .since = since});
}

// A part for another's sum takes along what was lost the last time. What is lost of our sum, which
// is divided already, goes to what we add to it the next time, before it is divided.
void Execution::encode(const Step& step, std::size_t begin, std::size_t count) {
  const Coding& coding = operands_.coding;
  const std::size_t place = step.src.begin + begin;
  const bool is_sum = step.src.area == Area::output;
  kernels::Encoding how{.first = place};
  if (coding.lost) how.lost = coding.lost + place;
  if (coding.carried && !is_sum) how.carried = coding.carried + place;
  if (coding.noise)
    how.noise = *coding.noise + 2 * static_cast<std::uint64_t>(group_.rank) + (is_sum ? 1 : 0);
  kernels::encode(coding.code, at(step.dst, begin), floats_at(step.src, begin), count, how);
  if (!coding.lost || !is_sum || envelope_.op != ReduceOp::average) return;
  for (std::size_t i = 0; i < count; ++i) how.lost[i] *= static_cast<float>(group_.size());
}

// Ours first, then those of the others in rank order: only this rank adds them up.
void Execution::sum_codes(const Step& step, std::size_t begin, std::size_t count) {
  const Coding& coding = operands_.coding;
  Pointers<const std::byte*> codes(peers_.size() - 1);
  std::size_t parts = 0;
  for (int rank = 0; rank < group_.size(); ++rank)
    if (rank != group_.rank) codes[parts++] = at(operand(step, group_.rank, rank).range, begin);
  kernels::sum_codes(coding.code, floats_at(step.dst, begin), floats_at(step.own, begin),
                     coding.carried ? coding.carried + step.own.begin + begin : nullptr,
                     codes.all(), count, 1.0f / static_cast<float>(divisor(step)));
}

// The first step reduces, the others write on what it has made.
void Execution::reduce_and_spread(std::span<const Step> steps, std::size_t begin,
                                  std::size_t count) {
  const Step& reduction = steps.front();
  Pointers<const void*> sources(peers_.size());
  std::size_t far = 0;
  for (int rank = 0; rank < group_.size(); ++rank) {
    const auto [owner, range] = operand(reduction, group_.rank, rank);
    const bool of_peer = owner != group_.rank;
    sources[static_cast<std::size_t>(rank)] =
        of_peer ? peer_at(owner, range, begin) : at(range, begin);
    if (of_peer) ++far;
  }
  Pointers<void*> places(steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const bool to_peer = steps[i].op == Step::Op::peer_write;
    places[i] = to_peer ? peer_at(steps[i].peer, steps[i].dst, begin) : at(steps[i].dst, begin);
    if (to_peer) ++far;
  }
  kernels::reduce_to_all(envelope_.dtype, envelope_.op, places.all(), sources.all(), count,
                         divisor(reduction));
  bytes_moved_ += count * element_ * far;
}

void Execution::trace_round(const LaneRun& lane) const {
  if (!group_.trace) return;
  for (std::size_t i = 0; i < lane.current().size(); ++i)
    group_.trace({.kind = TraceEvent::Kind::step,
                  .communicator = group_.id,
                  .sequence = envelope_.sequence,
                  .spec = &spec_,
                  .plan = &plan_,
                  .lane = lane.number,
                  .round = static_cast<int>(lane.round),
                  .step = static_cast<int>(i)});
}

int Execution::divisor(const Step& step) const {
  return step.finish && envelope_.op == ReduceOp::average ? group_.size() : 1;
}

std::byte* Execution::at(const AreaRange& range, std::size_t offset) const {
  std::byte* base = range.area == Area::input    ? operands_.input
                    : range.area == Area::output ? operands_.output
                    : range.area == Area::stage  ? operands_.stage
                    : range.area == Area::coded  ? operands_.coded
                                                 : operands_.scratch;
  return base + bytes({range.area, 0, range.begin + offset});
}

float* Execution::floats_at(const AreaRange& range, std::size_t offset) const {
  return reinterpret_cast<float*>(at(range, offset));
}

std::byte* Execution::peer_at(int peer, const AreaRange& range, std::size_t offset) const {
  return base_of(peer, range.area) + (range.begin + offset) * element_;
}

std::byte* Execution::base_of(int peer, Area area) const {
  const PeerMemory& memory = peers_[static_cast<std::size_t>(peer)];
  return area == Area::input ? memory.input : area == Area::output ? memory.output : memory.stage;
}

}  // namespace asup::collective
