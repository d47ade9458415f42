// What members tell each other about a communicator, outside its channels. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "asup/base/error.h"

namespace asup::collective {

enum NoteKind : std::uint32_t {
  kFailed = 1,  // text: which generation, and the outcome as write_outcome() puts it
  kWhere = 2,   // how many calls have you started?
  kHere = 3,    // text: the number
  kLeft = 4     // text: who is left, as write_word() puts it (survivors.h)
};

// "1 2,5 the message": kind, ranks, message.
std::string write_outcome(const Outcome& outcome);
Outcome read_outcome(std::string_view text);

}  // namespace asup::collective
