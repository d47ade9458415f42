// What members tell each other about a communicator, outside its channels. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "asup/base/error.h"

namespace asup::collective {

enum NoteKind : std::uint32_t {
  kFailed = 1,  // text: as write_failure() puts it
  kWhere = 2,   // how many calls have you started?
  kHere = 3,    // text: as write_whereabouts() puts it
  kLeft = 4     // text: who is left, as write_view() puts it (survivors.h)
};

// How a communicator failed that had been rebuilt so often.
struct Failure {
  std::uint64_t generation = 0;
  Outcome outcome;
};

// "0 1 2,5 the message": generation, kind, ranks, message. Nothing where the text is none.
std::string write_failure(const Failure& failure);
std::optional<Failure> read_failure(std::string_view text);

// Where a rank is: how many calls it has started, and the rank whose message it waits for now.
struct Whereabouts {
  std::uint64_t started = 0;
  std::optional<int> waits_for{};
};

// "7", "7 2". Nothing where the text is none.
std::string write_whereabouts(const Whereabouts& whereabouts);
std::optional<Whereabouts> read_whereabouts(std::string_view text);

}  // namespace asup::collective
