// A drawing of curves as SVG, for a page. Values only.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace asup::bench {

struct Series {
  std::string colour;
  bool dashed = false;
  std::vector<std::vector<std::pair<double, double>>> lines;  // (x, share from 0 to 1)
  bool dots = false;  // at each point, with the width of what is sure of it
  struct Interval {
    double x, least, most;
  };
  std::vector<Interval> intervals{};
};

struct ChartAxis {
  std::string label;  // with the unit
  bool logarithmic = false;
  std::vector<double> marks{};  // ascending; none: at round numbers
};

// Shares in percent over x, with a line at `target`. What lies below `least` is cut off, so that
// the interesting part is seen.
std::string line_chart(const ChartAxis& x, const std::vector<Series>& series,
                       std::optional<double> target, double least);

// Colours that are told apart, also by most who are colour-blind; the same number has the same one.
std::string chart_colour(std::size_t number);

// Where an axis from 0 to `most` has its marks: some five, at 1, 2 or 5 times a power of ten.
std::vector<double> marks_to(double most);

}  // namespace asup::bench
