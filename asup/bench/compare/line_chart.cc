#include "asup/bench/compare/line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace asup::bench {
namespace {

constexpr double kWidth = 720, kHeight = 380;
constexpr double kBeside = 1.25;  // on a logarithmic axis, beside the marks at its ends
constexpr double kLeft = 52, kRight = 24, kTop = 12, kBottom = 46;

// Where values of one axis lie in the drawing.
struct Scale {
  double from, to;  // values
  double at_from, at_to;
  bool logarithmic = false;

  double at(double value) const {
    const double share = logarithmic ? std::log(std::max(value, from) / from) / std::log(to / from)
                                     : (value - from) / (to - from);
    return at_from + share * (at_to - at_from);
  }
};

struct Extent {
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();
  void take(double value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
};

std::vector<double> decades(double from, double to) {
  std::vector<double> marks;
  for (double mark = from; mark <= to * 1.0001; mark *= 10) marks.push_back(mark);
  return marks;
}

// Whole powers of ten around all values, so that each end has its mark, unless marks are given.
Scale x_scale(const ChartAxis& axis, Extent extent) {
  if (!std::isfinite(extent.least)) extent = {0, 1};
  if (axis.logarithmic && !axis.marks.empty())
    return {axis.marks.front() / kBeside, axis.marks.back() * kBeside, kLeft, kWidth - kRight,
            true};
  if (!axis.logarithmic) return {0, std::max(extent.most, 1e-9), kLeft, kWidth - kRight};
  const double least = std::max(extent.least, 1e-9);
  const double from = std::pow(10, std::floor(std::log10(least)));
  const double to = std::pow(10, std::ceil(std::log10(std::max(extent.most, least * 1.01))));
  return {from, to, kLeft, kWidth - kRight, true};
}

std::vector<double> marks_of(const ChartAxis& axis, const Scale& x) {
  if (!axis.marks.empty()) return axis.marks;
  return axis.logarithmic ? decades(x.from, x.to) : marks_to(x.to);
}

// Between two marks of the shares: 5 points, less where all lie close together.
double apart(const Scale& y) { return y.to - y.from > 0.1001 ? 0.05 : 0.01; }

std::string grid(const ChartAxis& axis, const Scale& x, const Scale& y) {
  std::string svg;
  const double bottom = kHeight - kBottom;
  for (const double mark : marks_of(axis, x))
    svg += fmt::format(
        "<path class=\"grid\" d=\"M{0:.1f} {1:.1f}V{2:.1f}\"/><text x=\"{0:.1f}\" y=\"{3:.1f}\" "
        "text-anchor=\"middle\">{4:g}</text>\n",
        x.at(mark), kTop, bottom, bottom + 16, mark);
  for (double mark = y.from; mark <= y.to + 1e-9; mark += apart(y))
    svg += fmt::format(
        "<path class=\"grid\" d=\"M{0:.1f} {1:.1f}H{2:.1f}\"/><text x=\"{3:.1f}\" y=\"{4:.1f}\" "
        "text-anchor=\"end\">{5:.0f} %</text>\n",
        kLeft, y.at(mark), kWidth - kRight, kLeft - 6, y.at(mark) + 4, 100 * mark);
  return svg + fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n",
                           (kLeft + kWidth - kRight) / 2, kHeight - 8, axis.label);
}

std::string dots(const Series& one, const Scale& x, const Scale& y) {
  std::string svg;
  for (const auto& [over, least, most] : one.intervals)
    svg += fmt::format("<path d=\"M{:.1f} {:.1f}V{:.1f}\" stroke=\"{}\" opacity=\"0.5\"/>\n",
                       x.at(over), y.at(least), y.at(most), one.colour);
  for (const auto& line : one.lines)
    for (const auto& [over, share] : line)
      svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\"/>\n",
                         x.at(over), y.at(share), one.colour);
  return svg;
}

std::string curves(const std::vector<Series>& series, const Scale& x, const Scale& y) {
  std::string svg;
  for (const Series& one : series) {
    if (one.dots) svg += dots(one, x, y);
    for (const auto& line : one.lines) {
      std::string points;
      for (const auto& [over, share] : line)
        points += fmt::format("{:.1f},{:.1f} ", x.at(over), y.at(share));
      svg += fmt::format(
          "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{}/>\n", points,
          one.colour, one.dashed ? " stroke-dasharray=\"6 4\"" : "");
    }
  }
  return svg;
}

std::string line_at(const std::optional<double>& target, const Scale& y) {
  if (!target) return "";
  return fmt::format("<path class=\"target\" d=\"M{} {:.1f}h{}\"/>\n", kLeft, y.at(*target),
                     kWidth - kLeft - kRight);
}

}  // namespace

std::vector<double> marks_to(double most) {
  const double rough = most / 5, power = std::pow(10, std::floor(std::log10(rough)));
  double apart = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0})
    if (factor * power >= rough) apart = factor * power;
  std::vector<double> marks;
  for (int i = 0; i * apart <= most * 1.0001; ++i) marks.push_back(i * apart);
  return marks;
}

std::string chart_colour(std::size_t number) {
  static constexpr std::array kColours{"#4269d0", "#efb118", "#ff725c", "#3ca951", "#a463f2",
                                       "#6cc5b0", "#ff8ab7", "#9c6b4e", "#97bbf5", "#9498a0"};
  return kColours[number % kColours.size()];
}

std::string line_chart(const ChartAxis& axis, const std::vector<Series>& series,
                       std::optional<double> target, double least) {
  Extent over, shares;
  for (const Series& one : series)
    for (const auto& line : one.lines)
      for (const auto& [value, share] : line) {
        over.take(value);
        shares.take(share);
      }
  const double bottom = std::floor(std::clamp(std::max(least, shares.least), 0.0, 0.95) * 20) / 20;
  const double top = std::max(bottom + 0.05, std::ceil(shares.most * 20) / 20);
  const Scale x = x_scale(axis, over), y{bottom, top, kHeight - kBottom, kTop};
  const std::string clip = axis.logarithmic ? "clip-log" : "clip";
  return fmt::format(
      "<svg viewBox=\"0 0 {0} {1}\" role=\"img\" aria-label=\"accuracy over {2}\">\n"
      "<clipPath id=\"{3}\"><rect x=\"{4}\" y=\"{5}\" width=\"{6}\" height=\"{7}\"/></clipPath>\n"
      "{8}<g clip-path=\"url(#{3})\">\n{10}{9}</g>\n</svg>\n",
      kWidth, kHeight, axis.label, clip, kLeft, kTop, kWidth - kLeft - kRight,
      kHeight - kTop - kBottom, grid(axis, x, y), curves(series, x, y), line_at(target, y));
}

}  // namespace asup::bench
