// What one rank of a pipeline does in a step, as data.
//
// A schedule is a pure function (rank, PipelineSpec) -> Schedule. The same schedule is executed
// (pipeline/), verified by a run over all ranks (verify.h), priced on stage times (cost.h) and
// drawn. Nothing here does I/O or knows torch. Values only; safe from any thread.
//
// A model is cut into `stages()` stages, which follow each other; a rank has `chunks` of them. A
// step's batch is cut into micro-batches, each of which goes forward through all stages and back.
// Messages are actions too: what a stage computes for the next one leaves by a send on its rank and
// arrives by a recv on the other. Where one rank has both stages, nothing is sent.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace asup::parallel {

// Which rank has which stage.
enum class Placement : std::uint8_t {
  loop,  // stage s is on rank s % ranks
  vee    // two chunks: down the ranks, and up again; rank 0 has the first stage and the last
};

struct PipelineSpec {
  int ranks = 1;
  int micro_batches = 1;
  int chunks = 1;  // stages of a rank
  Placement placement = Placement::loop;

  int stages() const { return ranks * chunks; }
  int rank_of(int stage) const;
  // Stages of this rank, ascending.
  std::vector<int> stages_of(int rank) const;
};

struct Action {
  enum class Op : std::uint8_t {
    forward,          // of a micro-batch through a stage
    backward,         // gradients of the stage's input and of its weights
    backward_input,   // of its input alone: what the stage before waits for
    backward_weight,  // of its weights, from what backward_input left behind
    send_activation,  // the stage's output, to the next stage's rank
    recv_activation,  // the stage's input, from the rank of the one before
    send_gradient,    // the gradient of the stage's input, to the rank of the one before
    recv_gradient     // the gradient of the stage's output, from the next stage's rank
  };
  Op op;
  int stage = 0;  // whose output, input or gradient it is: the stage on this rank
  int micro_batch = 0;

  bool is_message() const { return op >= Op::send_activation; }
  bool operator==(const Action&) const = default;
};

std::string_view name_of(Action::Op op);
std::string describe(const Action& action);

// In order. Sends are under way from their place on, beside what follows; a recv is waited for at
// its place, and may be posted earlier.
using Schedule = std::vector<Action>;

struct PipelineSchedule {
  std::string_view name;
  std::string_view description;  // bubble and activations; shown to users
  Placement placement;
  int least_chunks, most_chunks;
  bool splits_backward;  // into input and weight
  // Computations of `rank` alone, in order; with_messages() adds what travels between them.
  Schedule (*computations)(int rank, const PipelineSpec& spec);
  // Micro-batches whose activations `rank` holds at most, over its chunks, each counted as one:
  // from forward to the end of backward, or of backward_weight.
  int (*activations)(int rank, const PipelineSpec& spec);
};

// Every schedule there is; the first is the usual one.
const std::vector<PipelineSchedule>& pipeline_schedules();
// Throws BadInput that lists the names, and suggests the nearest.
const PipelineSchedule& find_schedule(std::string_view name);

// Throws BadInput that says what to change: chunks that the schedule does not have, micro-batches
// that it cannot deal out, no ranks.
void require_valid(const PipelineSchedule& schedule, const PipelineSpec& spec);

// The rank's computations with its messages: each send right behind the computation that makes what
// is sent, each recv right before the one that needs it.
Schedule with_messages(const Schedule& computations, int rank, const PipelineSpec& spec);

// That of each rank, whole. needs: require_valid()
std::vector<Schedule> schedules_of(const PipelineSchedule& schedule, const PipelineSpec& spec);

}  // namespace asup::parallel
