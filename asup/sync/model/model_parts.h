// A model of which each of several ranks has a part, as the stages of a pipeline do: what counts of
// all parts together. Used from the thread that trains.
#pragma once

#include <string>
#include <vector>

#include "asup/collective/communicator.h"
#include "asup/sync/model/tensors.h"

namespace asup::sync {

struct ModelParts {
  // Of the ranks that have the parts of one model; outlives what is made of this. Null: the model
  // is whole here.
  Communicator* communicator = nullptr;
  // Parameters here that another part counts: copies of what several use, by their names.
  std::vector<std::string> copies{};

  bool is_whole() const { return communicator == nullptr || communicator->size() == 1; }

  // Those of these parameters that count here.
  std::vector<NamedTensor> counted(const std::vector<NamedTensor>& parameters) const;

  // All of these throw JobFailed, and are collective.
  //
  // The norm of all parts, from that of what counts here: added in the order of ranks, so that
  // groups on other links come to the same bits.
  double norm(double here) const;
  // Whether it is so in each.
  bool all(bool here) const;
};

}  // namespace asup::sync
