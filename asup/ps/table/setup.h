// An embedding table that servers keep: rows of `width` floats, of which a step touches few. Row r
// is on server r % servers, so that rows that many ask for, which often come first, are spread.
// All workers want the same; servers refuse those that do not. Values only; safe from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "asup/kernels/rule.h"

namespace asup::ps::table {

struct TableSetup {
  std::string name;
  std::uint64_t rows = 0;
  std::uint32_t width = 0;
  // sgd, adagrad or adam, without decay: it changes the touched rows and their state alone.
  kernels::Rule rule{};
  double init = 0.01;  // rows begin spread evenly over ±init
  std::uint64_t seed = 0;
  // Whether an update waits for the pushes of all workers (bsp), or each push is one (asp). The
  // same for all tables of a job.
  bool synchronous = true;

  bool operator==(const TableSetup&) const = default;
};

// Throws BadInput for what cannot work.
void require_sense(const TableSetup& setup);

// Floats of a row on a server: the row, then each slot of the rule's state.
std::uint64_t record_floats(const TableSetup& setup);

inline int server_of(std::uint64_t row, int servers) {
  return static_cast<int>(row % static_cast<std::uint64_t>(servers));
}
// A row's place among those of its server.
inline std::uint64_t place_of(std::uint64_t row, int servers) {
  return row / static_cast<std::uint64_t>(servers);
}
inline std::uint64_t row_at(std::uint64_t place, int server, int servers) {
  return place * static_cast<std::uint64_t>(servers) + static_cast<std::uint64_t>(server);
}
// How many of the first `rows` rows a server has.
inline std::uint64_t rows_on(std::uint64_t rows, int server, int servers) {
  const auto all = static_cast<std::uint64_t>(servers), own = static_cast<std::uint64_t>(server);
  return rows / all + (own < rows % all ? 1 : 0);
}

// What a row begins with: a function of the table's name, its seed, the row and the column.
void initial_row(const TableSetup& setup, std::uint64_t row, float* to);

std::string to_text(const TableSetup& setup);
// Throws BadInput where the text is not a setup.
TableSetup parse_setup(std::string_view text);

// Where two workers' setups differ, in words; empty where they do not.
std::string difference(const TableSetup& there, const TableSetup& here);

}  // namespace asup::ps::table
