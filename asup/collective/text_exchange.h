// Texts and bytes of any length over a communicator. Collective: all ranks call these in the same
// order. They throw JobFailed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "asup/collective/communicator.h"

namespace asup {

// Rank 0's text, on every rank. `timeout`: of each call; zero: the communicator's.
std::string broadcast_text(Communicator& communicator, std::string text,
                           Seconds timeout = Seconds(0));

// Every rank's text, by rank, on every rank.
std::vector<std::string> gather_texts(Communicator& communicator, const std::string& text);
// The same on rank 0 alone; elsewhere none.
std::vector<std::string> gather_texts_at_first(Communicator& communicator, std::string text);

// Each rank its own of rank 0's texts, which are by rank; others' are not looked at.
std::string scatter_texts(Communicator& communicator, const std::vector<std::string_view>& texts);

}  // namespace asup
