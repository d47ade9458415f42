#include "asup/bench/faults/tally.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "asup/bench/timed_job.h"

namespace asup::bench {
namespace {

std::vector<double> sorted(std::vector<double> values) {
  std::ranges::sort(values);
  return values;
}

std::string milliseconds(const std::vector<double>& seconds, double share) {
  return seconds.empty() ? "-" : fmt::format("{:.0f}", at_share(sorted(seconds), share) * 1e3);
}

std::string count(std::int64_t number) { return fmt::format("{}", number); }

}  // namespace

void FaultTally::add(const FaultyJob& job, const FaultyJobEnd& end) {
  ++jobs;
  counts.add(end.counts);
  hung += end.hung;
  failed += !end.failed.empty();
  wrong += !end.wrong.empty();
  lost_steps += end.lost_steps;
  again += end.again;
  recovery_seconds.insert(recovery_seconds.end(), end.recovery_seconds.begin(),
                          end.recovery_seconds.end());
  if (!end.is_well())
    troubles.push_back(
        fmt::format("{}: a job {}; it is in {}", way.name, trouble_of(end), job.folder));
}

Table fault_table() {
  return {{{"way", -18, 8},
           {"after a loss", -12, 10, 3},
           {"jobs", 5, 4},
           {"kills", 6, 5},
           {"halts", 6, 5, 2},
           {"joins", 6, 5, 2},
           {"cuts", 5, 4, 2},
           {"hung", 5, 4},
           {"failed", 7, 6},
           {"wrong", 6, 5},
           {"lost steps", 11, 10, 1},
           {"again", 6, 5, 2},
           {"p50 ms", 7, 6},
           {"p99 ms", 7, 6}},
          room_here()};
}

std::string line_of(const FaultTally& tally) {
  const bool is_compared = tally.way.follows_one || tally.way.is_program;
  return fault_table().row(
      {tally.way.name, word_of(tally.way.after), count(tally.jobs), count(tally.counts.kills),
       count(tally.counts.halts), count(tally.counts.joins), count(tally.counts.cuts),
       count(tally.hung), count(tally.failed), is_compared ? count(tally.wrong) : "-",
       count(tally.lost_steps), tally.way.logs_steps() ? count(tally.again) : "-",
       milliseconds(tally.recovery_seconds, 0.5), milliseconds(tally.recovery_seconds, 0.99)});
}

nlohmann::ordered_json json_of(const FaultTally& tally) {
  nlohmann::ordered_json row{
      {"way", tally.way.name},       {"after_a_loss", word_of(tally.way.after)},
      {"jobs", tally.jobs},          {"kills", tally.counts.kills},
      {"halts", tally.counts.halts}, {"joins", tally.counts.joins},
      {"cuts", tally.counts.cuts},   {"hung", tally.hung},
      {"failed", tally.failed},      {"lost_steps", tally.lost_steps},
      {"again", tally.again},        {"wrong", tally.wrong}};
  row["is_compared"] = tally.way.follows_one || tally.way.is_program;
  if (!tally.recovery_seconds.empty()) {
    row["recovery_p50_ms"] = at_share(sorted(tally.recovery_seconds), 0.5) * 1e3;
    row["recovery_p99_ms"] = at_share(sorted(tally.recovery_seconds), 0.99) * 1e3;
  }
  row["troubles"] = tally.troubles;
  return row;
}

std::string trouble_of(const FaultyJobEnd& end) {
  if (end.hung) return "hung";
  if (!end.failed.empty()) return end.failed;
  if (!end.wrong.empty()) return end.wrong;
  return end.lost_steps > 0 ? fmt::format("lost {} steps", end.lost_steps) : "";
}

}  // namespace asup::bench
