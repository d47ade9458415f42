#include "asup/bench/large_batch/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/bench/table.h"
#include "asup/report/format.h"

namespace asup::bench {
namespace {

using Json = nlohmann::ordered_json;

// "91.23 ± 0.12", without the second where one run says nothing about it.
std::string with_width(const std::string& mean, double width, std::size_t runs) {
  return runs < 2 ? mean : fmt::format("{} ± {:.2f}", mean, width);
}

std::string accuracy_word(const BatchRow& row) {
  if (row.diverged() > 0) return fmt::format("{} diverged", row.diverged());
  const auto accuracy = row.accuracy();
  return accuracy ? with_width(fmt::format("{:.2f}", accuracy->mean), accuracy->deviation,
                               accuracy->runs)
                  : "";
}

Table layout(const std::vector<std::string>& heads, int room) {
  return {{{heads[0], -9, 8},
           {heads[1], 7, 6},
           {heads[2], 14, 14},
           {heads[3], 15, 15, 1},
           {heads[4], 9, 8, 2},
           {heads[5], 10, 9, 3}},
          room};
}

Json json_of(const BatchRow& row) {
  Json seeds = Json::array(), accuracies = Json::array();
  for (const auto& [seed, accuracy] : row.by_seed) {
    seeds.push_back(seed);
    accuracies.push_back(accuracy ? Json(*accuracy) : Json());
  }
  const auto accuracy = row.accuracy();
  return {{"way", row.way},
          {"batch", row.batch},
          {"updates", row.updates},
          {"lr", row.lr},
          {"tuned", row.tuned},
          {"accuracy", accuracy ? Json(accuracy->mean / 100) : Json()},
          {"accuracy_deviation", accuracy ? Json(accuracy->deviation / 100) : Json()},
          {"diverged", row.diverged()},
          {"seeds", seeds},
          {"accuracies", accuracies},
          {"job", row.job}};
}

BatchRow row_in(const Json& json) {
  BatchRow row{.job = json.at("job"),
               .way = json.at("way"),
               .batch = json.at("batch"),
               .lr = json.at("lr"),
               .tuned = json.at("tuned"),
               .updates = json.at("updates"),
               .by_seed = {}};
  const Json &seeds = json.at("seeds"), &accuracies = json.at("accuracies");
  for (std::size_t i = 0; i < seeds.size(); ++i) {
    const Json& accuracy = accuracies.at(i);
    row.by_seed[seeds[i]] =
        accuracy.is_null() ? std::nullopt : std::optional(accuracy.get<double>());
  }
  return row;
}

}  // namespace

std::size_t BatchRow::diverged() const {
  return static_cast<std::size_t>(
      std::count_if(by_seed.begin(), by_seed.end(), [](const auto& each) { return !each.second; }));
}

std::optional<Spread> BatchRow::accuracy() const {
  if (by_seed.empty() || diverged() > 0) return std::nullopt;
  std::vector<double> values;
  for (const auto& [seed, accuracy] : by_seed) values.push_back(100 * *accuracy);
  return spread_of(values);
}

std::optional<Spread> BatchRow::minus(const BatchRow& other) const {
  if (diverged() > 0) return std::nullopt;
  std::vector<double> mine, theirs;
  for (const auto& [seed, accuracy] : by_seed) {
    const auto found = other.by_seed.find(seed);
    if (found == other.by_seed.end() || !found->second) continue;
    mine.push_back(100 * *accuracy);
    theirs.push_back(100 * *found->second);
  }
  if (mine.empty()) return std::nullopt;
  return paired(mine, theirs);
}

const BatchRow* BatchTable::beside(const BatchRow& row) const {
  const std::string way = row.way == "growing" ? "nesterov" : row.way;
  for (const BatchRow& other : rows)
    if (other.way == way && other.batch == smallest) return other.job == row.job ? nullptr : &other;
  return nullptr;
}

std::vector<std::string> BatchTable::heads() const {
  return {"way", "batch", "accuracy %", fmt::format("minus {}'s", smallest), "updates", "lr"};
}

std::vector<std::string> BatchTable::cells(const BatchRow& row) const {
  const BatchRow* other = beside(row);
  const auto points = other ? row.minus(*other) : std::nullopt;
  return {row.way,
          std::to_string(row.batch),
          accuracy_word(row),
          points
              ? with_width(fmt::format("{:+.2f}", points->mean), points->confidence(), points->runs)
              : "",
          row.updates > 0 ? report::grouped(row.updates) : "",
          fmt::format("{:g}{}", row.lr, row.tuned ? "" : " *")};
}

std::string BatchTable::head(int room) const { return layout(heads(), room).head(); }

std::string BatchTable::line(const BatchRow& row, int room) const {
  return layout(heads(), room).row(cells(row));
}

std::string BatchTable::notes() const {
  return fmt::format(
      "accuracy: mean and deviation of one run; minus {}'s: points beside the same way's smallest "
      "batch (growing: beside nesterov's), paired by seed, with the 95 % interval; updates: of "
      "the weights in a run; *: a rate that was not tuned for this batch.",
      smallest);
}

BatchRowFile::BatchRowFile(std::string file) : file_(std::move(file)) {
  if (file_.empty() || !std::filesystem::exists(file_)) return;
  try {
    for (const Json& row : Json::parse(read_file(file_))) rows_.push_back(row_in(row));
  } catch (const nlohmann::json::exception& error) {
    throw BadInput(
        fmt::format("--json {}: holds other things than rows of asup bench large-batch, "
                    "and is not written over; name another file ({})",
                    file_, error.what()));
  }
}

const BatchRow* BatchRowFile::find(const std::string& job) const {
  for (const BatchRow& row : rows_)
    if (row.job == job) return &row;
  return nullptr;
}

void BatchRowFile::keep(const BatchRow& row) {
  const auto same = std::find_if(rows_.begin(), rows_.end(),
                                 [&](const BatchRow& each) { return each.job == row.job; });
  if (same == rows_.end())
    rows_.push_back(row);
  else
    *same = row;
  if (file_.empty()) return;
  Json list = Json::array();
  for (const BatchRow& each : rows_) list.push_back(json_of(each));
  write_atomically(file_, list.dump(1) + "\n");
}

}  // namespace asup::bench
