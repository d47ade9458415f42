#include "asup/bench/compare/page.h"

#include <fmt/format.h>

#include "asup/base/svg.h"
#include "asup/bench/compare/line_chart.h"

namespace asup::bench {
namespace {

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

}  // namespace

std::string html_page(const std::string& title, const std::string& body) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
      "<title>{0}</title><style>{1}</style></head><body><main>\n"
      "<h1>{0}</h1>{2}</main></body></html>\n",
      escaped(title), kStyle, body);
}

std::string line_of_colour(std::size_t number, bool dashed) {
  return fmt::format("<i{} style=\"color:{}\"></i>", dashed ? " class=\"dashed\"" : "",
                     chart_colour(number));
}

}  // namespace asup::bench
