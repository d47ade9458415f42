#include "asup/bench/compare/accuracy_page.h"

#include <fmt/format.h>

#include <functional>

#include "asup/base/svg.h"
#include "asup/bench/compare/line_chart.h"
#include "asup/bench/compare/page.h"

namespace asup::bench {
namespace {

constexpr double kBelowTarget = 0.2;  // what is drawn of the way to the target

// Lines are broken between words alone, not at the dashes in them.
std::string whole_words(const std::string& text) {
  std::string html;
  for (const std::string& word : words_of(text)) html += "<span>" + escaped(word) + "</span> ";
  return html;
}

std::string table_of(const AccuracyScene& scene, const std::vector<WayRuns>& ways) {
  std::string html = "<table>\n<tr>";
  for (const std::string& head : accuracy_heads(scene)) html += "<th>" + escaped(head) + "</th>";
  html += "</tr>\n";
  const std::vector<AccuracyRow> rows = accuracy_rows(scene, ways);
  for (std::size_t number = 0; number < rows.size(); ++number) {
    const AccuracyRow& row = rows[number];
    const std::vector<std::string> cells = accuracy_cells(row);
    html += fmt::format("<tr><td>{}{}<code>{}</code></td>", line_of_colour(number, row.computed),
                        escaped(cells[0]), whole_words(row.way.flags));
    for (std::size_t i = 1; i < cells.size(); ++i) html += "<td>" + escaped(cells[i]) + "</td>";
    html += "</tr>\n";
  }
  return html + "</table>\n";
}

std::string legend_of(const std::vector<WayRuns>& ways) {
  std::string html = "<div class=\"legend\">";
  for (std::size_t number = 0; number < ways.size(); ++number)
    html += fmt::format("<span>{}{}{}</span>", line_of_colour(number, ways[number].computed),
                        escaped(ways[number].way.name), ways[number].computed ? " (computed)" : "");
  return html + "</div>\n";
}

using Over = std::function<double(const Figures& run, const CurvePoint& point)>;

std::string chart_of(const AccuracyScene& scene, const std::vector<WayRuns>& ways,
                     const ChartAxis& axis, const Over& over) {
  std::vector<Series> series;
  for (const WayRuns& way : ways) {
    Series one{chart_colour(series.size()), way.computed, {}};
    for (const Figures& run : way.runs) {
      one.lines.emplace_back();
      for (const CurvePoint& point : run.curve)
        one.lines.back().emplace_back(over(run, point), point.accuracy);
    }
    series.push_back(std::move(one));
  }
  return "<div class=\"card\">" + legend_of(ways) +
         line_chart(axis, series, scene.target, scene.target - kBelowTarget) + "</div>\n";
}

// What those sent that diverged is not known.
std::vector<WayRuns> that_ended(std::vector<WayRuns> ways) {
  for (WayRuns& way : ways)
    std::erase_if(way.runs, [](const Figures& run) { return run.diverged; });
  return ways;
}

}  // namespace

std::string accuracy_page(const std::string& title, const AccuracyScene& scene,
                          const std::vector<WayRuns>& ways) {
  const auto seconds = [](const Figures&, const CurvePoint& point) { return point.seconds; };
  // How many bytes had been sent at a test is not written down; they are taken to grow evenly.
  const auto megabytes = [&](const Figures& run, const CurvePoint& point) {
    if (run.curve.back().step == 0) return 0.0;
    return run.bytes / scene.workers / 1e6 * static_cast<double>(point.step) /
           static_cast<double>(run.curve.back().step);
  };
  return html_page(
      "Time to accuracy",
      fmt::format(
          "<p class=\"soft\">{}</p>\n<div class=\"card\">{}</div>\n"
          "<p class=\"soft\">sooner, points, fewer: beside all-reduce; points of accuracy paired "
          "by "
          "seed, with the 95 % interval; elsewhere ± is the deviation of one run. MB: sent by a "
          "worker. idle: share of the time in which workers stood still for an exchange. speed: "
          "share "
          "of what all workers could do together if none ever waited. Dots in the drawings: the "
          "target.{}</p>\n"
          "<h2>Test accuracy over seconds</h2>\n{}<h2>Test accuracy over "
          "bytes</h2>\n{}",
          escaped(title), table_of(scene, ways),
          std::any_of(ways.begin(), ways.end(), [](const WayRuns& way) { return way.computed; })
              ? " *, dashed: computed, the measured time of a step by the steps of a run without a "
                "limit."
              : "",
          chart_of(scene, ways, {"seconds of training"}, seconds),
          chart_of(scene, that_ended(ways), {"MB that a worker has sent (logarithmic)", true},
                   megabytes)));
}

}  // namespace asup::bench
