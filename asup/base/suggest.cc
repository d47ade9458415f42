#include "asup/base/suggest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

namespace asup {
namespace {

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

// A third of the letters may be wrong, and one at least: "lr" finds "le", but not "seed".
std::size_t tolerance(std::string_view word) { return std::max<std::size_t>(1, word.size() / 3); }

// How far `word` is from `name`; a word that begins the name ("work" of "workers") is one away,
// since people shorten flags.
std::size_t distance(std::string_view word, std::string_view name) {
  const std::size_t edits = edit_distance(word, name);
  const bool begins = word.size() >= 3 && word.size() < name.size() &&
                      edit_distance(word, name.substr(0, word.size())) == 0;
  return begins ? std::min<std::size_t>(edits, 1) : edits;
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the table: rows[2] is i, rows[1] is i - 1, rows[0] is i - 2.
  std::vector<std::size_t> rows[3];
  for (auto& row : rows) row.resize(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) rows[2][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::rotate(std::begin(rows), std::begin(rows) + 1, std::end(rows));
    auto& [before, last, row] = rows;
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                           lower(a[i - 2]) == lower(b[j - 1]);
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return rows[2][b.size()];
}

std::optional<std::string> nearest(std::string_view word, std::span<const std::string> known) {
  const auto best = std::min_element(known.begin(), known.end(), [&](auto& a, auto& b) {
    return distance(word, a) < distance(word, b);
  });
  if (best == known.end() || distance(word, *best) > tolerance(word)) return std::nullopt;
  return *best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> known) {
  const auto found = nearest(word, known);
  return found ? fmt::format("; did you mean '{}'?", *found) : "";
}

}  // namespace asup
