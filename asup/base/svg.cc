#include "asup/base/svg.h"

#include <fmt/format.h>

namespace asup {
namespace {

constexpr const char* kSvgStyle = R"(<style>
  .paper { fill: #ffffff } .ink { fill: #1f2328 } .faint { fill: #656d76 }
  .rank { stroke: #d0d7de } .tick { stroke: #eaeef2 } .signal { stroke: #afb8c1 }
  text { font: 12px system-ui, sans-serif } .label { font-size: 10px } .title { font-size: 14px }
  .halo { paint-order: stroke; stroke: #ffffff; stroke-width: 3px; stroke-linejoin: round }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0d1117 } .ink { fill: #e6edf3 } .faint { fill: #8d96a0 }
    .rank { stroke: #30363d } .tick { stroke: #1b2129 } .signal { stroke: #484f58 }
    .halo { stroke: #0d1117 }
  }
</style>
)";

}  // namespace

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '&')
      result += "&amp;";
    else if (c == '"')
      result += "&quot;";
    else
      result += c;
  }
  return result;
}

std::string svg_head(double width, double height, std::string_view title) {
  return fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0:.0f} {1:.0f}" width="{0:.0f}" height="{1:.0f}" role="img">
<title>{2}</title>
{3}<rect class="paper" width="{0:.0f}" height="{1:.0f}"/>
<text class="ink title" x="16" y="24">{2}</text>
)",
      width, height, escaped(title), kSvgStyle);
}

}  // namespace asup
