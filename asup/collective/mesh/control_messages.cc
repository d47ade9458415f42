#include "asup/collective/mesh/control_messages.h"

#include <fmt/ranges.h>

#include <sstream>
#include <vector>

#include "asup/base/numbers.h"

namespace asup::collective {

std::string write_failure(const Failure& failure) {
  const Outcome& outcome = failure.outcome;
  return fmt::format("{} {} {} {}", failure.generation, static_cast<int>(outcome.kind()),
                     fmt::join(outcome.ranks(), ","), outcome.message());
}

std::optional<Failure> read_failure(std::string_view text) {
  std::istringstream in{std::string(text)};
  std::uint64_t generation = 0;
  int kind = 0;
  if (!(in >> generation >> kind) || in.get() != ' ') return std::nullopt;
  if (kind <= 0 || kind > static_cast<int>(Outcome::Kind::broken)) return std::nullopt;
  std::vector<int> ranks;
  for (int rank = 0; in.peek() != ' ' && in >> rank;) {
    ranks.push_back(rank);
    if (in.peek() == ',') in.get();
  }
  if (in.get() != ' ') return std::nullopt;
  std::string message;
  std::getline(in, message, '\0');
  return Failure{generation, {static_cast<Outcome::Kind>(kind), message, ranks}};
}

std::string write_whereabouts(const Whereabouts& whereabouts) {
  std::string text = std::to_string(whereabouts.started);
  if (whereabouts.waits_for) text += " " + std::to_string(*whereabouts.waits_for);
  return text;
}

std::optional<Whereabouts> read_whereabouts(std::string_view text) {
  const std::size_t space = text.find(' ');
  const auto started = number_in<std::uint64_t>(text.substr(0, space));
  if (!started) return std::nullopt;
  if (space == std::string_view::npos) return Whereabouts{*started, {}};
  const auto rank = number_in<int>(text.substr(space + 1));
  return rank && *rank >= 0 ? std::optional(Whereabouts{*started, rank}) : std::nullopt;
}

}  // namespace asup::collective
