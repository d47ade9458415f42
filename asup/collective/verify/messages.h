// Which send meets which receive. Throws Refuted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "asup/collective/plan/plan.h"
#include "asup/collective/verify/site.h"

namespace asup::collective::proof {

struct Message {
  Site send, recv;
  std::size_t size;  // elements; 0: a signal
};

// All messages of one lane.
struct Messages {
  std::vector<Message> all;
  // For each rank, the index of each of its message steps' message, in the order of its plan.
  std::vector<std::vector<std::uint32_t>> by_rank;
};

// The k-th send of a rank to another meets the k-th receive there from it.
Messages pair_messages(const Spec& spec, const std::vector<Plan>& plans, int lane);

}  // namespace asup::collective::proof
