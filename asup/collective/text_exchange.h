// Texts and bytes of any length over a communicator. Collective: all ranks call these in the same
// order. They throw JobFailed.
#pragma once

#include <string>
#include <vector>

#include "asup/collective/communicator.h"

namespace asup {

// Rank 0's text, on every rank.
std::string broadcast_text(Communicator& communicator, std::string text);

// Every rank's text, by rank, on every rank.
std::vector<std::string> gather_texts(Communicator& communicator, const std::string& text);

}  // namespace asup
