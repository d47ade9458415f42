#include "asup/bench/table.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "asup/report/format.h"
#include "asup/report/terminal.h"

namespace asup::bench {

Table::Table(std::vector<Column> columns, int room)
    : columns_(std::move(columns)), shown_(columns_.size()) {
  std::iota(shown_.begin(), shown_.end(), std::size_t{0});
  if (width() <= room) return;
  for (Column& column : columns_) column.width = column.width < 0 ? -column.least : column.least;
  const auto by_leaves = [this](std::size_t a, std::size_t b) {
    return columns_[a].leaves < columns_[b].leaves;
  };
  while (width() > room) {
    const auto first = std::max_element(shown_.begin(), shown_.end(), by_leaves);
    if (columns_[*first].leaves == 0) return;
    shown_.erase(first);
  }
}

int Table::width() const {
  int sum = -1;  // no blank before the first
  for (const std::size_t column : shown_) sum += std::abs(columns_[column].width) + 1;
  return sum;
}

std::string Table::head() const {
  std::vector<std::string> cells;
  for (const Column& column : columns_) cells.push_back(column.head);
  return row(cells);
}

std::string Table::row(const std::vector<std::string>& cells) const {
  std::string line;
  for (const std::size_t i : shown_) {
    const int width = columns_[i].width;
    if (i != shown_.front()) line += ' ';
    line += width < 0 ? fmt::format("{:<{}}", cells[i], -width)
                      : fmt::format("{:>{}}", cells[i], width);
  }
  return line + '\n';
}

int room_here() { return report::Terminal(STDOUT_FILENO).room(); }

void print_text(std::string_view text) { fmt::print("{}\n", report::wrapped(text, room_here())); }

}  // namespace asup::bench
