// The rows of a batch, each once, in the order in which servers are asked for them.
// A pure function; safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace asup::ps::table {

struct DistinctRows {
  std::vector<std::uint64_t> rows;   // by server, and ascending in each
  std::vector<std::size_t> begins;   // of each server's among them, and the end
  std::vector<std::int64_t> places;  // among the rows, of each id
};

// needs: ids from 0 to rows - 1
DistinctRows distinct_rows(std::span<const std::int64_t> ids, std::uint64_t rows, int servers);

}  // namespace asup::ps::table
