// What ranks must have in common before and while they train: the same model, the same settings,
// the same bits. Everything here is collective: all ranks call it in the same order, from the
// thread that trains, and where one rank finds a difference all of them throw the same JobFailed.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "asup/collective/communicator.h"
#include "asup/sync/model/tensors.h"

namespace asup::sync {

// Throws JobFailed on every rank with the complaint of the first rank that has one (not empty).
void agree(Communicator& communicator, const std::string& complaint);

// What ranks do together succeeds on all of them, or fails on all: runs `action`, which is not
// collective, and makes its complaint every rank's.
template <typename Action>
void together(Communicator& communicator, const Action& action) {
  std::string complaint;
  try {
    action();
  } catch (const std::exception& error) {
    complaint = error.what();
  }
  agree(communicator, complaint);
}

// Something all ranks must have alike: what it is ("parameter 3, fc.weight") and how it is here.
struct AgreedValue {
  std::string what;
  std::string value;
};

// Facts about tensors: `kind` is "parameter" or "buffer".
std::vector<AgreedValue> agreed_values(std::string_view kind, std::span<const NamedTensor> tensors);

// Compares with rank 0's and names the first that differs, and both values.
void check_agreed(Communicator& communicator, std::span<const AgreedValue> facts);

// Every tensor becomes rank 0's. Where all ranks have the same bits already, as models that are
// made with one seed do, they tell each other so, in 32 bytes, and no tensor travels. Needs: the
// same shapes and strides on all ranks.
void broadcast_tensors(Communicator& communicator, std::span<const NamedTensor> tensors);

// Compares bitwise, by 64 bits of a digest of each tensor.
void check_equal_tensors(Communicator& communicator, std::string_view kind,
                         std::span<const NamedTensor> tensors);

}  // namespace asup::sync
