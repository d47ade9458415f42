#include "asup/parallel/schedule/verify.h"

#include <fmt/format.h>

#include <algorithm>

#include "asup/base/error.h"
#include "asup/parallel/schedule/messages.h"

namespace asup::parallel {
namespace {

using Op = Action::Op;

constexpr int kOps = 8;
constexpr int kNever = -1;

// The first flaw found ends the proof; verify() alone catches it.
struct Refuted {
  Flaw flaw;
};

template <typename... Args>
[[noreturn]] void refute(int rank, int position, fmt::format_string<Args...> format,
                         Args&&... args) {
  throw Refuted{{rank, position, fmt::format(format, std::forward<Args>(args)...)}};
}

bool is_send(Op op) { return op == Op::send_activation || op == Op::send_gradient; }

// Where each action is in the schedule of the rank that must have it.
class Positions {
 public:
  Positions(const PipelineSpec& spec, const std::vector<Schedule>& schedules)
      : spec_(spec),
        at_(static_cast<std::size_t>(kOps) * spec.stages() * spec.micro_batches, kNever) {
    for (int rank = 0; rank < spec.ranks; ++rank)
      for (int i = 0; i < static_cast<int>(schedules[rank].size()); ++i)
        enter(rank, i, schedules[rank][i]);
  }

  int of(const Action& action) const { return at_[index(action)]; }

 private:
  std::size_t index(const Action& action) const {
    return (static_cast<std::size_t>(action.op) * spec_.stages() + action.stage) *
               spec_.micro_batches +
           action.micro_batch;
  }

  void enter(int rank, int position, const Action& action) {
    if (action.stage < 0 || action.stage >= spec_.stages())
      refute(rank, position, "there is no stage {}; stages are 0 to {}", action.stage,
             spec_.stages() - 1);
    if (action.micro_batch < 0 || action.micro_batch >= spec_.micro_batches)
      refute(rank, position, "there is no micro-batch {}; they are 0 to {}", action.micro_batch,
             spec_.micro_batches - 1);
    if (spec_.rank_of(action.stage) != rank)
      refute(rank, position, "stage {} is on rank {}", action.stage, spec_.rank_of(action.stage));
    require_way(rank, position, action);
    int& at = at_[index(action)];
    if (at != kNever) refute(rank, position, "done a second time; first at action {}", at);
    at = position;
  }

  // A message has another rank to come from or go to.
  void require_way(int rank, int position, const Action& action) const {
    const bool forth = action.op == Op::recv_gradient || action.op == Op::send_activation;
    const int other = action.stage + (forth ? 1 : -1);
    if (!action.is_message()) return;
    const char* const verb = is_send(action.op) ? "send it to" : "receive it from";
    if (other < 0 || other >= spec_.stages())
      refute(rank, position, "there is no stage to {}", verb);
    if (spec_.rank_of(other) == rank)
      refute(rank, position, "stage {}, to {}, is on the same rank", other, verb);
  }

  const PipelineSpec& spec_;
  std::vector<int> at_;
};

// What each rank's own order must hold, given the positions of everything.
class Order {
 public:
  Order(const PipelineSpec& spec, const std::vector<Schedule>& schedules,
        const Positions& positions)
      : spec_(spec), schedules_(schedules), positions_(positions) {}

  void verify() const {
    for (int stage = 0; stage < spec_.stages(); ++stage)
      for (int i = 0; i < spec_.micro_batches; ++i) verify(stage, i);
    for (int rank = 0; rank < spec_.ranks; ++rank) verify_channels(rank);
  }

 private:
  bool has(const Action& action) const { return positions_.of(action) != kNever; }

  void require_there(const Action& action) const {
    const int rank = spec_.rank_of(action.stage);
    if (!has(action)) refute(rank, size_of(rank), "{} is missing", describe(action));
  }

  void require_order(const Action& first, const Action& then) const {
    require_there(first);
    require_there(then);
    if (positions_.of(first) > positions_.of(then))
      refute(spec_.rank_of(then.stage), positions_.of(then), "comes before {}, which it needs",
             describe(first));
  }

  // Of this stage, whole or the input's alone; either counts where none is there.
  Action backward_of(int stage, int micro_batch) const {
    const Action split{Op::backward_input, stage, micro_batch};
    return has(split) ? split : Action{Op::backward, stage, micro_batch};
  }

  void verify(int stage, int i) const {
    const Action forward{Op::forward, stage, i}, backward = backward_of(stage, i);
    const Action weight{Op::backward_weight, stage, i};
    require_there(forward);
    require_whole(backward, weight);
    require_order(forward, backward);
    if (has(weight)) require_order(backward, weight);

    if (receives_activation(stage, spec_))
      require_message({Op::recv_activation, stage, i}, forward);
    else if (stage > 0)
      require_order({Op::forward, stage - 1, i}, forward);
    if (receives_gradient(stage, spec_))
      require_message({Op::recv_gradient, stage, i}, backward);
    else if (stage + 1 < spec_.stages())
      require_order(backward_of(stage + 1, i), backward);
  }

  void require_whole(const Action& backward, const Action& weight) const {
    if (backward.op == Op::backward && has(backward) && has(weight))
      refute(spec_.rank_of(weight.stage), positions_.of(weight),
             "the backward at action {} has done it", positions_.of(backward));
    if (backward.op != Op::backward_input) return;
    const Action both{Op::backward, backward.stage, backward.micro_batch};
    if (has(both))
      refute(spec_.rank_of(both.stage), positions_.of(both),
             "the backward_input at action {} has done a part of it", positions_.of(backward));
    require_there(weight);
  }

  // `recv` before `user`, and its send behind what makes it.
  void require_message(const Action& recv, const Action& user) const {
    const Action send = counterpart(recv);
    require_order(recv, user);
    require_order(recv.op == Op::recv_activation ? Action{Op::forward, send.stage, send.micro_batch}
                                                 : backward_of(send.stage, send.micro_batch),
                  send);
  }

  // What each other rank sends this one, of each kind, is received in the order in which it is
  // sent.
  void verify_channels(int rank) const {
    std::vector<int> last(2 * static_cast<std::size_t>(spec_.ranks), kNever);  // recv's position
    for (int i = 0; i < size_of(rank); ++i) {
      const Action& recv = schedules_[rank][i];
      if (!recv.is_message() || is_send(recv.op)) continue;
      const int peer = peer_of(recv, spec_);
      int& before = last[2 * peer + (recv.op == Op::recv_gradient ? 1 : 0)];
      if (before != kNever) {
        const Action& earlier = schedules_[rank][before];
        if (positions_.of(counterpart(earlier)) > positions_.of(counterpart(recv)))
          refute(rank, i, "rank {} sends it before {}, which is received before", peer,
                 describe(counterpart(earlier)));
      }
      before = i;
    }
  }

  int size_of(int rank) const { return static_cast<int>(schedules_[rank].size()); }

  const PipelineSpec& spec_;
  const std::vector<Schedule>& schedules_;
  const Positions& positions_;
};

// All ranks at once, on links that buffer nothing.
class Run {
 public:
  Run(const PipelineSpec& spec, const std::vector<Schedule>& schedules, const Positions& positions,
      Sending sending)
      : spec_(spec),
        schedules_(schedules),
        positions_(positions),
        sending_(sending),
        come_to_(schedules.size(), 0),
        posted_(schedules.size(), 0) {}

  void run() {
    std::vector<int> ready;
    for (int rank = spec_.ranks - 1; rank >= 0; --rank) ready.push_back(rank);
    while (!ready.empty()) {
      const int rank = ready.back();
      ready.pop_back();
      advance(rank);
      for (int other = 0; other < spec_.ranks; ++other)
        if (!ended(other) && !waits(other, come_to_[other])) ready.push_back(other);
    }
    for (int rank = 0; rank < spec_.ranks; ++rank)
      if (!ended(rank)) refute_stuck(rank);
  }

 private:
  int size_of(int rank) const { return static_cast<int>(schedules_[rank].size()); }
  bool ended(int rank) const { return come_to_[rank] == size_of(rank); }

  void advance(int rank) {
    for (int& at = come_to_[rank]; at < size_of(rank); ++at) {
      post(rank, at);
      if (waits(rank, at)) return;
    }
  }

  // Messages that follow each other are under way together, where ranks wait for their sends.
  void post(int rank, int at) {
    int end = at + 1;
    const auto is_message = [&](int i) {
      return i < size_of(rank) && schedules_[rank][i].is_message();
    };
    if (sending_ == Sending::blocking && is_message(at))
      while (is_message(end)) ++end;
    posted_[rank] = std::max(posted_[rank], end);
  }

  bool waits(int rank, int at) const {
    const Action& action = schedules_[rank][at];
    if (!action.is_message()) return false;
    if (is_send(action.op) && sending_ == Sending::beside) return false;
    const Action other = counterpart(action);
    return positions_.of(other) >= posted_[spec_.rank_of(other.stage)];
  }

  const Action& awaited(int rank) const { return schedules_[rank][come_to_[rank]]; }

  // Whoever a stuck rank waits for is stuck too, so following them leads into a circle.
  [[noreturn]] void refute_stuck(int rank) const {
    for (int i = 0; i < spec_.ranks; ++i) rank = peer_of(awaited(rank), spec_);
    std::vector<int> circle = {rank};
    for (int next = peer_of(awaited(rank), spec_); next != rank;
         next = peer_of(awaited(next), spec_))
      circle.push_back(next);
    std::rotate(circle.begin(), std::min_element(circle.begin(), circle.end()), circle.end());
    std::string words;
    for (const int member : circle)
      words += fmt::format("rank {} waits in {} for ", member, describe(awaited(member)));
    refute(circle.front(), come_to_[circle.front()], "deadlock: {}rank {}", words, circle.front());
  }

  const PipelineSpec& spec_;
  const std::vector<Schedule>& schedules_;
  const Positions& positions_;
  const Sending sending_;
  std::vector<int> come_to_;  // by rank: the action that it is at
  std::vector<int> posted_;   // by rank: actions that it has begun, or that are under way
};

void verify_activations(const std::vector<Schedule>& schedules, std::span<const int> most) {
  for (int rank = 0; rank < static_cast<int>(schedules.size()); ++rank) {
    int held = 0;
    for (int i = 0; i < static_cast<int>(schedules[rank].size()); ++i) {
      const Op op = schedules[rank][i].op;
      held += op == Op::forward ? 1 : 0;
      if (held > most[rank])
        refute(rank, i, "holds the activations of {} micro-batches, {} at most are allowed", held,
               most[rank]);
      held -= op == Op::backward || op == Op::backward_weight ? 1 : 0;
    }
  }
}

}  // namespace

std::string describe(const Flaw& flaw, const std::vector<Schedule>& schedules) {
  const Schedule& schedule = schedules.at(static_cast<std::size_t>(flaw.rank));
  const auto position = static_cast<std::size_t>(flaw.position);
  if (position >= schedule.size()) return fmt::format("rank {}: {}", flaw.rank, flaw.what);
  return fmt::format("rank {}, action {}, {}: {}", flaw.rank, flaw.position,
                     describe(schedule[position]), flaw.what);
}

std::optional<Flaw> verify(const PipelineSpec& spec, const std::vector<Schedule>& schedules,
                           std::span<const int> activations, Sending sending) {
  const auto ranks = static_cast<std::size_t>(spec.ranks);
  check(schedules.size() == ranks, "{} schedules for {} ranks", schedules.size(), ranks);
  check(activations.empty() || activations.size() == ranks, "{} bounds for {} ranks",
        activations.size(), ranks);
  try {
    const Positions positions(spec, schedules);
    Order(spec, schedules, positions).verify();
    Run(spec, schedules, positions, sending).run();
    if (!activations.empty()) verify_activations(schedules, activations);
    return std::nullopt;
  } catch (Refuted& refuted) {
    return std::move(refuted.flaw);
  }
}

std::vector<Schedule> verified_schedules(const PipelineSchedule& schedule,
                                         const PipelineSpec& spec) {
  std::vector<Schedule> all = schedules_of(schedule, spec);
  std::vector<int> activations;
  for (int rank = 0; rank < spec.ranks; ++rank)
    activations.push_back(schedule.activations(rank, spec));
  if (const auto flaw = verify(spec, all, activations))
    throw Error(fmt::format("{}: {}", schedule.name, describe(*flaw, all)));
  return all;
}

}  // namespace asup::parallel
