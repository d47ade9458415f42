// The known name nearest to a mistyped one, for messages such as "did you mean --workers?".
// Values only; safe from any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace asup {

// Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b` (the optimal
// string alignment distance). Upper and lower case are the same.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The nearest of `known`, or nothing where even that one is too far to be what was meant.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> known);

// "; did you mean 'workers'?" to put at the end of a message, or "" where nothing is near.
std::string did_you_mean(std::string_view word, std::span<const std::string> known);

}  // namespace asup
