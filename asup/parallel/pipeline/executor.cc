#include "asup/parallel/pipeline/executor.h"

#include <algorithm>

#include "asup/base/clock.h"
#include "asup/base/error.h"
#include "asup/base/timeline.h"

namespace asup::parallel {
namespace {

using Op = Action::Op;
using torch::Tensor;

template <typename Map>
Tensor take(Map& map, const std::pair<int, int>& place) {
  const auto found = map.find(place);
  check(found != map.end(), "stage {} has nothing for micro-batch {}", place.first, place.second);
  Tensor tensor = std::move(found->second);
  map.erase(found);
  return tensor;
}

// In a recv the rank stands still until what it needs is there.
Activity activity_of(const Action& action) {
  switch (action.op) {
    case Op::forward:
      return Activity::forward;
    case Op::backward:
    case Op::backward_input:
      return Activity::backward;
    case Op::backward_weight:
      return Activity::backward_weight;
    case Op::send_activation:
    case Op::send_gradient:
      return Activity::send;
    case Op::recv_activation:
    case Op::recv_gradient:
      return Activity::wait;
  }
  return Activity::wait;
}

}  // namespace

Executor::Executor(Communicator& communicator, const PipelineSpec& spec,
                   const std::vector<Schedule>& schedules, StageOf stage_of, torch::Device device,
                   std::function<void(double seconds)> after_computing)
    : communicator_(communicator),
      spec_(spec),
      schedule_(schedules[static_cast<std::size_t>(communicator.rank())]),
      device_(device),
      stage_of_(std::move(stage_of)),
      after_computing_(std::move(after_computing)),
      messages_(communicator, spec, schedules) {}

Tensor Executor::run(std::int64_t step, const std::vector<Tensor>& inputs,
                     const LossOfMicroBatch& loss) {
  begin(step);
  for (const int number : spec_.stages_of(communicator_.rank()))
    stage_of_(number, 0).begin(step, loss);
  carry_out(schedule_, inputs);
  end();
  end_batch();
  return take_loss();
}

void Executor::begin(std::int64_t step) {
  loss_ = Tensor();
  for (auto* waiting : {&inputs_, &gradients_, &outputs_, &input_gradients_}) waiting->clear();
  messages_.begin(step);
}

void Executor::carry_out(const Schedule& actions, const std::vector<Tensor>& inputs) {
  const auto begin = Clock::now();
  for (const Action& action : actions) carry_out(action, inputs);
  stats_.seconds += seconds_since(begin);
}

void Executor::end() {
  const auto begin = Clock::now();
  messages_.end();
  stats_.wait_seconds += seconds_since(begin);
  stats_.seconds += seconds_since(begin);
}

void Executor::carry_out(const Action& action, const std::vector<Tensor>& inputs) {
  const auto begin = Clock::now();
  const Place place{action.stage, action.micro_batch};
  if (!action.is_message()) {
    messages_.post();
    if (current_timeline()) timeline_counter("micro-batches early", messages_.early());
  }
  const TimelineScope scope(activity_of(action), {.stage = action.stage,
                                                  .micro_batch = in_batch(action),
                                                  .detail = name_of(action.op).data()});
  switch (action.op) {
    case Op::forward:
      forward(action, inputs);
      break;
    case Op::backward:
    case Op::backward_input:
      backward(action);
      break;
    case Op::backward_weight:
      stage_of_(action.stage, action.micro_batch).backward_weight(in_batch(action));
      break;
    case Op::send_activation:
      messages_.send(action, take(outputs_, place));
      break;
    case Op::send_gradient:
      messages_.send(action, take(input_gradients_, place));
      break;
    case Op::recv_activation:
      inputs_[place] = messages_.recv(action).to(device_);
      break;
    case Op::recv_gradient:
      gradients_[place] = messages_.recv(action).to(device_);
      break;
  }
  if (after_computing_ && !action.is_message()) after_computing_(seconds_since(begin));
  note(action, seconds_since(begin));
}

void Executor::note(const Action& action, double seconds) {
  if (action.is_message()) {
    stats_.wait_seconds += seconds;
    return;
  }
  stats_.compute_seconds += seconds;
  StageTimes& sums = stats_.stages.try_emplace(action.stage, StageTimes{0, 0, 0, 0}).first->second;
  (action.op == Op::forward          ? sums.forward
   : action.op == Op::backward       ? sums.backward
   : action.op == Op::backward_input ? sums.backward_input
                                     : sums.backward_weight) += seconds;
}

PipelineStats Executor::stats() const {
  PipelineStats stats = stats_;
  const double micro_batches = static_cast<double>(stats.steps) * spec_.micro_batches;
  for (auto& [stage, times] : stats.stages) {
    for (double* seconds :
         {&times.forward, &times.backward, &times.backward_input, &times.backward_weight})
      *seconds /= std::max(1.0, micro_batches);
    if (times.backward == 0) times.backward = times.backward_input + times.backward_weight;
  }
  return stats;
}

void Executor::forward(const Action& action, const std::vector<Tensor>& inputs) {
  const auto [op, number, micro_batch] = action;
  const int place = in_batch(action);
  const Tensor input = number == 0 ? inputs.at(static_cast<std::size_t>(place)).to(device_)
                                   : take(inputs_, {number, micro_batch});
  const Tensor output = stage_of_(number, micro_batch).forward(place, input);
  if (number + 1 == spec_.stages())
    loss_ = loss_.defined() ? loss_ + output.detach() : output.detach();
  else
    (is_here(number + 1) ? inputs_[{number + 1, micro_batch}] : outputs_[{number, micro_batch}]) =
        output;
}

void Executor::backward(const Action& action) {
  const auto [op, number, micro_batch] = action;
  const bool last = number + 1 == spec_.stages();
  const Tensor gradient = last ? Tensor() : take(gradients_, {number, micro_batch});
  Stage& here = stage_of_(number, micro_batch);
  const Tensor of_input = op == Op::backward ? here.backward(in_batch(action), gradient)
                                             : here.backward_input(in_batch(action), gradient);
  if (number == 0) return;
  (is_here(number - 1) ? gradients_[{number - 1, micro_batch}]
                       : input_gradients_[{number, micro_batch}]) = of_input;
}

Tensor Executor::evaluate(const Tensor& input) {
  Tensor x;
  for (int number = 0; number < spec_.stages(); ++number) {
    if (!is_here(number)) continue;
    if (number == 0) x = input.to(device_);
    if (number > 0 && !is_here(number - 1)) {
      const std::string doing = fmt::format("waiting for stage {} in a test", number - 1);
      x = recv_tensor(communicator_, spec_.rank_of(number - 1), doing).to(device_);
    }
    x = stage_of_(number, kTest).evaluate(x);
    if (number + 1 == spec_.stages()) return x;
    if (is_here(number + 1)) continue;
    send_tensor(communicator_, x, spec_.rank_of(number + 1), "sending activations in a test");
  }
  return {};
}

}  // namespace asup::parallel
