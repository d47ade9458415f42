#include "asup/bench/compare/accuracy_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "asup/bench/table.h"
#include "asup/report/format.h"

namespace asup::bench {
namespace {

using Json = nlohmann::ordered_json;

std::vector<double> values_of(const WayRuns& way,
                              const std::function<double(const Figures&)>& figure) {
  std::vector<double> values;
  for (const Figures& run : way.runs) values.push_back(figure(run));
  return values;
}

// Over the runs that came to their end: what the others sent, and how long they stood still, is not
// known.
double mean_of(const WayRuns& way, const std::function<double(const Figures&)>& figure) {
  std::vector<double> values;
  for (const Figures& run : way.runs)
    if (!run.diverged) values.push_back(figure(run));
  return values.empty() ? 0 : spread_of(values).mean;
}

std::vector<double> accuracies(const WayRuns& way) {
  return values_of(way, [](const Figures& run) { return 100 * run.accuracy; });
}

std::optional<Spread> time_of(const WayRuns& way) {
  const bool reached = std::all_of(way.runs.begin(), way.runs.end(), [](const Figures& run) {
    return run.seconds_to_target.has_value() && !run.diverged;
  });
  if (!reached) return std::nullopt;
  return spread_of(values_of(way, [](const Figures& run) { return *run.seconds_to_target; }));
}

double mb_of(const AccuracyScene& scene, const WayRuns& way) {
  return mean_of(way, [](const Figures& run) { return run.bytes; }) / scene.workers / 1e6;
}

AccuracyRow row_of(const AccuracyScene& scene, const WayRuns& way) {
  AccuracyRow row;
  row.way = way.way;
  row.optimizer = way.optimizer;
  row.lr = way.lr;
  row.computed = way.computed;
  row.seeds = way.runs.size();
  row.diverged = static_cast<std::size_t>(std::count_if(
      way.runs.begin(), way.runs.end(), [](const Figures& run) { return run.diverged; }));
  row.seconds_to_target = time_of(way);
  row.accuracy = spread_of(accuracies(way));
  row.mb_sent = mb_of(scene, way);
  row.idle = mean_of(way, [](const Figures& run) { return run.idle; });
  row.speed = mean_of(way, [&](const Figures& run) {
    return run.seconds > 0 ? run.samples / run.seconds / scene.summed_speed() : 0;
  });
  return row;
}

void compare(const AccuracyScene& scene, const WayRuns& way, const WayRuns& allreduce,
             AccuracyRow& row) {
  const auto mine = time_of(way), theirs = time_of(allreduce);
  if (mine && theirs && mine->mean > 0) row.times_sooner = theirs->mean / mine->mean;
  if (way.runs.size() == allreduce.runs.size())
    row.points = paired(accuracies(way), accuracies(allreduce));
  if (row.mb_sent > 0) row.times_fewer_bytes = mb_of(scene, allreduce) / row.mb_sent;
}

// "1.2 +- 0.3", without the second where one run says nothing about it.
std::string with_spread(const char* format, double mean, double width, std::size_t runs) {
  const std::string first = fmt::format(fmt::runtime(format), mean);
  return runs < 2 ? first : fmt::format("{} ± {:.2f}", first, width);
}

std::string times_word(const std::optional<double>& times) {
  if (!times) return "";
  return *times >= 100 ? fmt::format("{:.0f} ×", *times) : fmt::format("{:.1f} ×", *times);
}

// As wide as their texts, the dearest first.
Table table_of(const std::vector<std::vector<std::string>>& lines, int room) {
  std::vector<Table::Column> columns;
  for (std::size_t i = 0; i < lines.front().size(); ++i) {
    int width = 0;
    for (const auto& cells : lines) width = std::max(width, report::visible_width(cells[i]));
    const bool first = i == 0;
    if (!first) ++width;  // two blanks between them
    columns.push_back(
        {lines.front()[i], first ? -width : width, width, i < 2 ? 0 : static_cast<int>(i)});
  }
  return {std::move(columns), room};
}

template <typename Value>
Json json_of(const std::optional<Value>& value) {
  return value ? Json(*value) : Json();
}

}  // namespace

std::vector<AccuracyRow> accuracy_rows(const AccuracyScene& scene,
                                       const std::vector<WayRuns>& ways) {
  const auto allreduce = std::find_if(
      ways.begin(), ways.end(), [](const WayRuns& way) { return way.way.name == "allreduce"; });
  std::vector<AccuracyRow> rows;
  for (const WayRuns& way : ways) {
    rows.push_back(row_of(scene, way));
    if (allreduce != ways.end() && allreduce->way.name != way.way.name)
      compare(scene, way, *allreduce, rows.back());
  }
  return rows;
}

std::vector<std::string> accuracy_heads(const AccuracyScene& scene) {
  return {"way",    fmt::format("s to {:g} %", 100 * scene.target),
          "sooner", "accuracy %",
          "points", "MB sent",
          "fewer",  "idle",
          "speed",  "optimizer, lr"};
}

std::vector<std::string> accuracy_cells(const AccuracyRow& row) {
  const auto& time = row.seconds_to_target;
  return {row.way.name + (row.computed ? " *" : ""),
          time           ? with_spread("{:.1f}", time->mean, time->deviation, row.seeds)
          : row.diverged ? fmt::format("{} diverged", row.diverged)
                         : "not reached",
          times_word(row.times_sooner),
          with_spread("{:.2f}", row.accuracy.mean, row.accuracy.deviation, row.seeds),
          row.points ? with_spread("{:+.2f}", row.points->mean, row.points->confidence(), row.seeds)
                     : "",
          fmt::format("{:.1f}", row.mb_sent),
          times_word(row.times_fewer_bytes),
          fmt::format("{:.2f}", row.idle),
          fmt::format("{:.2f}", row.speed),
          fmt::format("{} {:g}", row.optimizer, row.lr)};
}

std::string accuracy_table(const AccuracyScene& scene, const std::vector<AccuracyRow>& rows,
                           int room) {
  std::vector<std::vector<std::string>> lines{accuracy_heads(scene)};
  for (const AccuracyRow& row : rows) lines.push_back(accuracy_cells(row));
  const Table table = table_of(lines, room);
  std::string text;
  for (const auto& cells : lines) text += table.row(cells);
  const auto say = [&](std::string_view note) { text += report::wrapped(note, room) + "\n"; };
  say("sooner, points, fewer: beside all-reduce; points of accuracy paired by seed, with the 95 % "
      "interval (elsewhere ± is one run's deviation). MB: of a worker. idle: share of the time. "
      "speed: share of what all workers could do together if none waited.");
  if (std::any_of(rows.begin(), rows.end(), [](const AccuracyRow& row) { return row.computed; }))
    say("*: computed: the measured time of a step by the steps of a run without a limit");
  return text;
}

nlohmann::ordered_json accuracy_json(const AccuracyScene& scene, const AccuracyRow& row) {
  const auto& time = row.seconds_to_target;
  const auto& points = row.points;
  return {{"way", row.way.name},
          {"flags", row.way.flags},
          {"optimizer", row.optimizer},
          {"lr", row.lr},
          {"workers", scene.workers},
          {"slow", scene.slow},
          {"sample_ms", scene.sample_ms},
          {"seeds", row.seeds},
          {"diverged", row.diverged},
          {"computed", row.computed},
          {"target", scene.target},
          {"seconds_to_target", time ? Json(time->mean) : Json()},
          {"seconds_to_target_deviation", time ? Json(time->deviation) : Json()},
          {"times_sooner_than_allreduce", json_of(row.times_sooner)},
          {"accuracy", row.accuracy.mean / 100},
          {"accuracy_deviation", row.accuracy.deviation / 100},
          {"accuracy_points_minus_allreduce", points ? Json(points->mean) : Json()},
          {"accuracy_points_confidence_95", points ? Json(points->confidence()) : Json()},
          {"bytes_sent_by_a_worker", row.mb_sent * 1e6},
          {"times_fewer_bytes_than_allreduce", json_of(row.times_fewer_bytes)},
          {"idle_share", row.idle},
          {"share_of_summed_speed", row.speed}};
}

}  // namespace asup::bench
