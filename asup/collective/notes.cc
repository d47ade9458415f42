#include "asup/collective/notes.h"

#include <fmt/format.h>

#include <sstream>
#include <vector>

namespace asup::collective {

std::string write_outcome(const Outcome& outcome) {
  std::string ranks;
  for (const int rank : outcome.ranks())
    ranks += fmt::format("{}{}", ranks.empty() ? "" : ",", rank);
  return fmt::format("{} {} {}", static_cast<int>(outcome.kind()), ranks, outcome.message());
}

Outcome read_outcome(std::string_view text) {
  std::istringstream in{std::string(text)};
  int kind = 0;
  in >> kind;
  in.get();
  std::vector<int> ranks;
  for (int rank = 0; in.peek() != ' ' && in >> rank;) {
    ranks.push_back(rank);
    if (in.peek() == ',') in.get();
  }
  in.clear();
  in.get();
  std::string message;
  std::getline(in, message, '\0');
  const bool known = kind > 0 && kind <= static_cast<int>(Outcome::Kind::broken);
  return {known ? static_cast<Outcome::Kind>(kind) : Outcome::Kind::broken, message, ranks};
}

}  // namespace asup::collective
