#include "asup/ps/table/distinct_rows.h"

#include <array>
#include <utility>

#include "asup/ps/table/setup.h"

namespace asup::ps::table {
namespace {

struct Item {
  std::uint64_t key;  // ascends by server, then by row
  std::uint64_t id;   // its place among the ids
};

// By the last digit first, each pass stable.
void sort_by_key(std::vector<Item>& items, std::uint64_t largest) {
  constexpr unsigned kBits = 11;
  constexpr std::uint64_t kDigits = 1 << kBits;
  std::vector<Item> sorted(items.size());
  for (unsigned shift = 0; shift < 64 && largest >> shift > 0; shift += kBits) {
    std::array<std::size_t, kDigits> begins{};
    const auto digit_of = [&](const Item& item) { return item.key >> shift & (kDigits - 1); };
    for (const Item& item : items) ++begins[digit_of(item)];
    std::size_t begin = 0;
    for (std::size_t& count : begins) begin += std::exchange(count, begin);
    for (const Item& item : items) sorted[begins[digit_of(item)]++] = item;
    items.swap(sorted);
  }
}

}  // namespace

DistinctRows distinct_rows(std::span<const std::int64_t> ids, std::uint64_t rows, int servers) {
  const std::uint64_t most = rows_on(rows, 0, servers);  // of a server
  std::vector<Item> items(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto row = static_cast<std::uint64_t>(ids[i]);
    items[i] = {static_cast<std::uint64_t>(server_of(row, servers)) * most + place_of(row, servers),
                i};
  }
  sort_by_key(items, most * static_cast<std::uint64_t>(servers));

  DistinctRows distinct;
  distinct.places.resize(ids.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i == 0 || items[i].key != items[i - 1].key) {
      const auto server = static_cast<int>(items[i].key / most);
      while (std::ssize(distinct.begins) <= server) distinct.begins.push_back(distinct.rows.size());
      distinct.rows.push_back(row_at(items[i].key % most, server, servers));
    }
    distinct.places[items[i].id] = std::ssize(distinct.rows) - 1;
  }
  distinct.begins.resize(static_cast<std::size_t>(servers) + 1, distinct.rows.size());
  return distinct;
}

}  // namespace asup::ps::table
