// What the pages of benchmarks have in common: one file each, without scripts, that holds all it
// needs. Functions only.
#pragma once

#include <string>

namespace asup::bench {

// `title` is plain text, `body` HTML.
std::string html_page(const std::string& title, const std::string& body);

// A piece of the line that chart_colour(number) is drawn with, for legends.
std::string line_of_colour(std::size_t number, bool dashed = false);

}  // namespace asup::bench
