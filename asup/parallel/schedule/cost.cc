#include "asup/parallel/schedule/cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "asup/base/error.h"
#include "asup/parallel/schedule/messages.h"

namespace asup::parallel {
namespace {

using Op = Action::Op;

constexpr double kNotSent = -1;

void require_time(double time, const char* what) {
  require(std::isfinite(time) && time >= 0, "{} {}: a time is a number from 0 on", what, time);
}

void require_times(const PipelineSpec& spec, const PipelineTimes& times) {
  const auto stages = static_cast<std::size_t>(spec.stages());
  require(times.stages.size() == stages, "times of {} stages for a pipeline of {}",
          times.stages.size(), stages);
  require(times.speeds.empty() || times.speeds.size() == static_cast<std::size_t>(spec.ranks),
          "speeds of {} ranks for a pipeline of {}", times.speeds.size(), spec.ranks);
  require(times.transfer.empty() || times.transfer.size() + 1 >= stages,
          "transfer times of {} borders; {} stages have {}", times.transfer.size(), stages,
          stages - 1);
  double forward = 0;
  for (const StageTimes& stage : times.stages) {
    require_time(stage.forward, "forward");
    require_time(stage.backward, "backward");
    require_time(stage.backward_input, "backward_input");
    require_time(stage.backward_weight, "backward_weight");
    forward += stage.forward;
  }
  require(forward > 0, "the stages' forward takes no time at all: there is nothing to price");
  for (const double speed : times.speeds)
    require(std::isfinite(speed) && speed > 0, "a rank of speed {}: a speed is larger than 0",
            speed);
  require_time(times.latency, "link latency");
  for (const double time : times.transfer) require_time(time, "transfer");
}

class Simulation {
 public:
  Simulation(const PipelineSpec& spec, const std::vector<Schedule>& schedules,
             const PipelineTimes& times)
      : spec_(spec),
        schedules_(schedules),
        times_(times),
        arrivals_(2 * static_cast<std::size_t>(spec.stages()) * spec.micro_batches, kNotSent),
        links_(static_cast<std::size_t>(spec.ranks) * spec.ranks, 0),
        clocks_(schedules.size(), 0) {
    price_.ranks.resize(schedules.size());
    price_.busy.resize(schedules.size());
    price_.activations.resize(schedules.size());
  }

  Price run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int rank = 0; rank < spec_.ranks; ++rank)
        while (step(rank)) moved = true;
    }
    for (int rank = 0; rank < spec_.ranks; ++rank) {
      require_ended(rank);
      price_.activations[rank] = most_held(schedules_[rank]);
      price_.makespan = std::max(price_.makespan, clocks_[rank]);
    }
    price_.alone = alone();
    return std::move(price_);
  }

 private:
  // Carries the rank's next action out; false where there is none, or it has to wait.
  bool step(int rank) {
    auto& done = price_.ranks[rank];
    if (done.size() == schedules_[rank].size()) return false;
    const Action& action = schedules_[rank][done.size()];
    const double begin = clocks_[rank];
    double end = begin;
    switch (action.op) {
      case Op::send_activation:
      case Op::send_gradient:
        end = send(rank, action);
        break;
      case Op::recv_activation:
      case Op::recv_gradient: {
        const double arrival = arrivals_[slot(action)];
        if (arrival == kNotSent) return false;
        clocks_[rank] = end = std::max(begin, arrival);
        break;
      }
      default: {
        const double time = times_.stages[action.stage].of(action.op) / speed(rank);
        price_.busy[rank] += time;
        clocks_[rank] = end = begin + time;
      }
    }
    done.push_back({action, begin, end});
    return true;
  }

  void require_ended(int rank) const {
    const Schedule& schedule = schedules_[rank];
    const std::size_t done = price_.ranks[rank].size();
    if (done < schedule.size())
      throw Error(
          fmt::format("rank {} never gets what {} waits for", rank, describe(schedule[done])));
  }

  // When it arrives.
  double send(int rank, const Action& action) {
    const Action recv = counterpart(action);
    const double transfer =
        times_.transfer.empty() ? 0 : times_.transfer[std::min(action.stage, recv.stage)];
    double& link = links_[static_cast<std::size_t>(rank) * spec_.ranks + peer_of(action, spec_)];
    link = std::max(link, clocks_[rank]) + transfer;
    return arrivals_[slot(recv)] = link + times_.latency;
  }

  std::size_t slot(const Action& recv) const {
    const std::size_t kind = recv.op == Op::recv_gradient ? 1 : 0;
    return (kind * spec_.stages() + recv.stage) * spec_.micro_batches + recv.micro_batch;
  }

  double speed(int rank) const { return times_.speeds.empty() ? 1 : times_.speeds[rank]; }

  static int most_held(const Schedule& schedule) {
    int held = 0, most = 0;
    for (const Action& action : schedule) {
      held += action.op == Op::forward ? 1 : 0;
      most = std::max(most, held);
      held -= action.op == Op::backward || action.op == Op::backward_weight ? 1 : 0;
    }
    return most;
  }

  double alone() const {
    double time = 0, fastest = 0;
    for (const StageTimes& stage : times_.stages) time += stage.forward + stage.backward;
    for (int rank = 0; rank < spec_.ranks; ++rank) fastest = std::max(fastest, speed(rank));
    return time * spec_.micro_batches / fastest;
  }

  const PipelineSpec& spec_;
  const std::vector<Schedule>& schedules_;
  const PipelineTimes& times_;
  std::vector<double> arrivals_;  // of each recv's message
  std::vector<double> links_;     // from rank to rank: when it is free
  std::vector<double> clocks_;    // of each rank
  Price price_;
};

}  // namespace

double StageTimes::of(Action::Op op) const {
  switch (op) {
    case Op::forward:
      return forward;
    case Op::backward:
      return backward;
    case Op::backward_input:
      return backward_input;
    case Op::backward_weight:
      return backward_weight;
    default:
      return 0;
  }
}

PipelineTimes equal_times(const StageTimes& rank, const PipelineSpec& spec) {
  const double share = 1.0 / spec.chunks;
  const StageTimes stage{rank.forward * share, rank.backward * share, rank.backward_input * share,
                         rank.backward_weight * share};
  PipelineTimes times;
  times.stages.assign(static_cast<std::size_t>(spec.stages()), stage);
  return times;
}

double Price::shortest() const {
  double least = makespan;
  for (const auto& rank : ranks)
    for (const TimedAction& timed : rank)
      if (!timed.action.is_message() && timed.end > timed.begin)
        least = std::min(least, timed.end - timed.begin);
  return least;
}

double Price::bubble(int rank) const { return 1 - busy.at(rank) / makespan; }

double Price::bubble() const {
  const double computed = std::accumulate(busy.begin(), busy.end(), 0.0);
  return 1 - computed / (makespan * static_cast<double>(busy.size()));
}

Price price(const PipelineSpec& spec, const std::vector<Schedule>& schedules,
            const PipelineTimes& times) {
  require_times(spec, times);
  check(schedules.size() == static_cast<std::size_t>(spec.ranks), "{} schedules for {} ranks",
        schedules.size(), spec.ranks);
  return Simulation(spec, schedules, times).run();
}

}  // namespace asup::parallel
