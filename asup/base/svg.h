// What pictures in SVG have in common. Pure; safe from any thread.
#pragma once

#include <string>
#include <string_view>

namespace asup {

// Plain text as XML or HTML.
std::string escaped(std::string_view text);

// The head of a picture, up to its title, in pixels; "</svg>" ends it. Its classes follow the
// reader's light or dark scheme: text is `ink` or `faint` (and `label`, small, with a `halo` over
// lines), lines are `rank`, `tick` or `signal`. Needs no scripts. `title` is plain text.
std::string svg_head(double width, double height, std::string_view title);

}  // namespace asup
