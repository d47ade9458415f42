#include "asup/bench/large_batch/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "asup/base/svg.h"
#include "asup/bench/compare/line_chart.h"
#include "asup/bench/compare/page.h"

namespace asup::bench {
namespace {

constexpr double kBelowBest = 0.2;  // what is drawn of the accuracies

// In the order of the table.
std::vector<std::string> ways_in(const BatchTable& table) {
  std::vector<std::string> ways;
  for (const BatchRow& row : table.rows)
    if (std::find(ways.begin(), ways.end(), row.way) == ways.end()) ways.push_back(row.way);
  return ways;
}

Series series_of(const BatchTable& table, const std::string& way, std::size_t number) {
  Series series{chart_colour(number), false, {{}}, true, {}};
  for (const BatchRow& row : table.rows) {
    const auto accuracy = row.accuracy();
    if (row.way != way || !accuracy) continue;
    const double share = accuracy->mean / 100;
    series.lines.front().emplace_back(row.batch, share);
    if (accuracy->runs < 2) continue;
    const double width = accuracy->confidence() / 100;
    series.intervals.push_back({static_cast<double>(row.batch), share - width, share + width});
  }
  return series;
}

std::string chart_of(const BatchTable& table) {
  std::set<double> batches;
  double best = 0;
  for (const BatchRow& row : table.rows) {
    batches.insert(row.batch);
    if (const auto accuracy = row.accuracy()) best = std::max(best, accuracy->mean / 100);
  }
  std::vector<Series> series;
  std::string legend;
  for (const std::string& way : ways_in(table)) {
    legend += fmt::format("<span>{}{}</span>", line_of_colour(series.size()), escaped(way));
    series.push_back(series_of(table, way, series.size()));
  }
  const ChartAxis axis{"samples of a batch (logarithmic)", true, {batches.begin(), batches.end()}};
  return "<div class=\"card\"><div class=\"legend\">" + legend + "</div>\n" +
         line_chart(axis, series, std::nullopt, best - kBelowBest) + "</div>\n";
}

std::string row_of(const std::vector<std::string>& cells, const char* tag) {
  std::string html = "<tr>";
  for (const std::string& cell : cells) html += fmt::format("<{0}>{1}</{0}>", tag, escaped(cell));
  return html + "</tr>\n";
}

}  // namespace

std::string large_batch_page(const std::string& title, const BatchTable& table) {
  std::string rows = row_of(table.heads(), "th");
  for (const BatchRow& row : table.rows) rows += row_of(table.cells(row), "td");
  return html_page(
      "Large batches",
      fmt::format(
          "<p class=\"soft\">{}</p>\n<h2>Test accuracy over the size of a batch</h2>\n{}"
          "<p class=\"soft\">Bars: the 95 % interval, where there are several seeds. No dot: a run "
          "diverged, or lies far below.</p>\n"
          "<h2>Figures</h2>\n<div class=\"card\"><table>\n{}</table></div>\n"
          "<p class=\"soft\">{}</p>\n",
          escaped(title), chart_of(table), rows, escaped(table.notes())));
}

}  // namespace asup::bench
