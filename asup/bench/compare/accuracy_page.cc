#include "asup/bench/compare/accuracy_page.h"

#include <fmt/format.h>

#include <functional>

#include "asup/bench/compare/line_chart.h"

namespace asup::bench {
namespace {

constexpr double kBelowTarget = 0.2;  // what is drawn of the way to the target

constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --page: #f7f7f5; --card: #fff; --ink: #16181d; --soft: #60646c; --line: #e4e4e0; }
@media (prefers-color-scheme: dark) {
  :root { --page: #101216; --card: #191c22; --ink: #eceef2; --soft: #9aa0ab; --line: #2b2f38; }
}
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 960px; margin: 0 auto; padding: 32px 20px 64px; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 17px; margin: 36px 0 10px; }
.soft, code { color: var(--soft); } code { display: block; max-width: 20em; font-size: 12px; white-space: normal; }
code span { white-space: nowrap; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 14px 16px; overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: 5px 10px; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; margin-bottom: 6px; }
.legend i, td i { display: inline-block; width: 18px; border-top: 3px solid; margin-right: 7px; vertical-align: middle; }
i.dashed { border-top-style: dashed; }
svg { display: block; width: 100%; height: auto; } svg text { fill: var(--soft); font-size: 12px; }
.grid { stroke: var(--line); fill: none; } .target { stroke: var(--soft); stroke-dasharray: 1 3; }
)";

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char letter : text) switch (letter) {
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '&':
        safe += "&amp;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += letter;
    }
  return safe;
}

std::string line_of_colour(std::size_t number, bool dashed) {
  return fmt::format("<i{} style=\"color:{}\"></i>", dashed ? " class=\"dashed\"" : "",
                     chart_colour(number));
}

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
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
      "<title>Time to accuracy</title><style>{}</style></head><body><main>\n"
      "<h1>Time to accuracy</h1><p class=\"soft\">{}</p>\n<div class=\"card\">{}</div>\n"
      "<p class=\"soft\">sooner, points, fewer: beside all-reduce; points of accuracy paired by "
      "seed, with the 95 % interval; elsewhere ± is the deviation of one run. MB: sent by a "
      "worker. idle: share of the time in which workers stood still for an exchange. speed: share "
      "of what all workers could do together if none ever waited. Dots in the drawings: the "
      "target.{}</p>\n"
      "<h2>Test accuracy over seconds</h2>\n{}<h2>Test accuracy over "
      "bytes</h2>\n{}</main></body></html>\n",
      kStyle, escaped(title), table_of(scene, ways),
      std::any_of(ways.begin(), ways.end(), [](const WayRuns& way) { return way.computed; })
          ? " *, dashed: computed, the measured time of a step by the steps of a run without a "
            "limit."
          : "",
      chart_of(scene, ways, {"seconds of training"}, seconds),
      chart_of(scene, that_ended(ways), {"MB that a worker has sent (logarithmic)", true},
               megabytes));
}

}  // namespace asup::bench
