#include "asup/parallel/schedule/schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "asup/base/error.h"
#include "asup/base/suggest.h"
#include "asup/parallel/schedule/messages.h"

namespace asup::parallel {

int PipelineSpec::rank_of(int stage) const {
  const int place = stage % ranks;
  const bool up = placement == Placement::vee && stage / ranks % 2 == 1;
  return up ? ranks - 1 - place : place;
}

std::vector<int> PipelineSpec::stages_of(int rank) const {
  std::vector<int> stages;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const bool up = placement == Placement::vee && chunk % 2 == 1;
    stages.push_back(chunk * ranks + (up ? ranks - 1 - rank : rank));
  }
  return stages;
}

std::string_view name_of(Action::Op op) {
  switch (op) {
    case Action::Op::forward:
      return "forward";
    case Action::Op::backward:
      return "backward";
    case Action::Op::backward_input:
      return "backward_input";
    case Action::Op::backward_weight:
      return "backward_weight";
    case Action::Op::send_activation:
      return "send_activation";
    case Action::Op::recv_activation:
      return "recv_activation";
    case Action::Op::send_gradient:
      return "send_gradient";
    case Action::Op::recv_gradient:
      return "recv_gradient";
  }
  return "?";
}

std::string describe(const Action& action) {
  return fmt::format("{} of stage {}, micro-batch {}", name_of(action.op), action.stage,
                     action.micro_batch);
}

const PipelineSchedule& find_schedule(std::string_view name) {
  std::vector<std::string> names;
  for (const PipelineSchedule& schedule : pipeline_schedules()) {
    if (schedule.name == name) return schedule;
    names.emplace_back(schedule.name);
  }
  throw BadInput(fmt::format("no pipeline schedule '{}'{}; there are: {}", name,
                             did_you_mean(name, names), fmt::join(names, ", ")));
}

void require_valid(const PipelineSchedule& schedule, const PipelineSpec& spec) {
  require(spec.ranks >= 1, "a pipeline of {} ranks: it needs at least 1", spec.ranks);
  require(spec.micro_batches >= 1, "{} micro-batches: a step needs at least 1", spec.micro_batches);
  const bool has_chunks =
      spec.chunks >= schedule.least_chunks && spec.chunks <= schedule.most_chunks;
  if (schedule.least_chunks == schedule.most_chunks)
    require(
        has_chunks, "{} gives each rank {} of the model, not {}; {}", schedule.name,
        schedule.most_chunks == 1 ? "one stage" : fmt::format("{} stages", schedule.most_chunks),
        spec.chunks,
        schedule.most_chunks == 1 ? "for more, choose interleaved" : "leave the number out");
  require(has_chunks, "{} gives each rank {} to {} stages of the model, not {}{}", schedule.name,
          schedule.least_chunks, schedule.most_chunks, spec.chunks,
          spec.chunks == 1 ? "; for one, choose 1f1b" : "");
  check(spec.placement == schedule.placement, "{} places its stages otherwise", schedule.name);
}

std::vector<Schedule> schedules_of(const PipelineSchedule& schedule, const PipelineSpec& spec) {
  std::vector<Schedule> all;
  for (int rank = 0; rank < spec.ranks; ++rank)
    all.push_back(with_messages(schedule.computations(rank, spec), rank, spec));
  return all;
}

}  // namespace asup::parallel
