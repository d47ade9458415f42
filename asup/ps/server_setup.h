// What all workers of a job want of its servers; every worker sends it, and servers refuse workers
// that do not want the same. Values only; safe from any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "asup/kernels/code.h"
#include "asup/kernels/rule.h"
#include "asup/layout/layout.h"
#include "asup/ps/pace/options.h"
#include "asup/ps/pace/sample_allocator.h"
#include "asup/ps/teams.h"

namespace asup::ps {

using layout::Layout;
using layout::Range;

struct ServerSetup {
  Layout layout;  // of all shared parameters; gaps are always zero, and trained like all others
  // An optimizer's groups of parameters: the rule of each, and each tensor's group.
  std::vector<kernels::Rule> rules{kernels::Rule{}};
  std::vector<std::uint32_t> groups{};  // by tensor of the layout; none: all are of the first
  // Where workers have parts of the model: the parts, one after the other, and each worker's team,
  // of which every member has another part. None: each has all, or ranges of its own.
  std::vector<Range> parts{};
  std::vector<std::uint32_t> teams{};
  // Tensors that several parts have, by their places in the layout: all but the first of each. They
  // get the same gradients, and count once where a gradient's norm does.
  std::vector<std::uint32_t> copies{};
  pace::Options pace;                  // of the teams
  std::optional<pace::Workload> work;  // none: workers find their samples themselves
  double compensation = 0;             // lambda of delay compensation (DC-ASGD); 0: none
  bool with_state = false;             // who provides the parameters provides the rules' state too
  // What gradients and parameters of some tensors travel in (coded_parts.h), by their places in the
  // layout, which ascend. needs: none with the rule `merge`
  kernels::Code code = kernels::Code::none;
  std::vector<std::uint32_t> coded{};
};

// Throws BadInput for what cannot work, whatever the members.
void require_sense(const ServerSetup& setup, int workers, int servers);

// The parts of the model; it is one where workers have all of it.
std::vector<Range> parts_of(const ServerSetup& setup);

// By its place in the layout.
std::size_t group_of(const ServerSetup& setup, std::size_t tensor);

// Floats of state that servers keep for each parameter: as many as the rule that has most, and one
// for the gradients that some rule gathers from the parts of a step (kernels/rule.h), the last.
std::size_t state_slots(const ServerSetup& setup);
bool gathers_gradients(const ServerSetup& setup);

// What each server keeps: server s keeps shard s, a contiguous range of the flat space. All members
// agree on it. Throws BadInput where there are more servers than parameters to keep.
std::vector<Range> shards_of(const ServerSetup& setup, int servers);

std::string to_text(const ServerSetup& setup);
// Throws BadInput where the text is not a setup.
ServerSetup parse_setup(std::string_view text);

// Where two workers' setups differ, in words: "parameter 3 is fc.weight with 100 elements there and
// fc.weight with 120 here". Empty where they do not.
std::string difference(const ServerSetup& there, const ServerSetup& here);

}  // namespace asup::ps
