#include "asup/parallel/schedule/messages.h"

#include "asup/base/error.h"

namespace asup::parallel {
namespace {

using Op = Action::Op;

}  // namespace

bool receives_activation(int stage, const PipelineSpec& spec) {
  return stage > 0 && spec.rank_of(stage - 1) != spec.rank_of(stage);
}

bool receives_gradient(int stage, const PipelineSpec& spec) {
  return stage + 1 < spec.stages() && spec.rank_of(stage + 1) != spec.rank_of(stage);
}

Action counterpart(const Action& message) {
  const auto [op, stage, micro_batch] = message;
  switch (op) {
    case Op::send_activation:
      return {Op::recv_activation, stage + 1, micro_batch};
    case Op::recv_activation:
      return {Op::send_activation, stage - 1, micro_batch};
    case Op::send_gradient:
      return {Op::recv_gradient, stage - 1, micro_batch};
    case Op::recv_gradient:
      return {Op::send_gradient, stage + 1, micro_batch};
    default:
      break;
  }
  throw Error(fmt::format("{} is no message", describe(message)));
}

Schedule with_messages(const Schedule& computations, int rank, const PipelineSpec& spec) {
  Schedule whole;
  for (const Action& action : computations) {
    const auto [op, stage, micro_batch] = action;
    check(spec.rank_of(stage) == rank, "rank {} has no stage {}", rank, stage);
    const bool forward = op == Op::forward;
    const bool backward = op == Op::backward || op == Op::backward_input;
    const bool before = receives_activation(stage, spec), after = receives_gradient(stage, spec);
    if (forward && before) whole.push_back({Op::recv_activation, stage, micro_batch});
    if (backward && after) whole.push_back({Op::recv_gradient, stage, micro_batch});
    whole.push_back(action);
    if (forward && after) whole.push_back({Op::send_activation, stage, micro_batch});
    if (backward && before) whole.push_back({Op::send_gradient, stage, micro_batch});
  }
  return whole;
}

}  // namespace asup::parallel
