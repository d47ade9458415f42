#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "asup/base/svg.h"
#include "asup/parallel/schedule/drawing.h"
#include "asup/parallel/schedule/messages.h"

namespace asup::parallel {
namespace {

using Op = Action::Op;

struct Kind {
  Op op;
  const char* words;
  int hue;
};

constexpr Kind kKinds[] = {{Op::forward, "forward", 212},
                           {Op::backward, "backward", 150},
                           {Op::backward_input, "gradient of the input", 150},
                           {Op::backward_weight, "gradient of the weights", 32}};

class SvgDrawing {
 public:
  SvgDrawing(const PipelineSpec& spec, const Price& price)
      : spec_(spec), price_(price), width_(width_of(price)) {}

  std::string draw(const std::string& title) {
    const double height = y(spec_.ranks) + kAxis + kLegend;
    text_ = svg_head(std::max(kLeft + width_ + kRight, 560.0), height, title);
    draw_axis();
    for (int rank = 0; rank < spec_.ranks; ++rank) draw_rank(rank);
    for (const auto& rank : price_.ranks)
      for (const TimedAction& timed : rank) draw_message(timed);
    draw_legend(height - kLegend / 2);
    return text_ + "</svg>\n";
  }

 private:
  static constexpr double kLeft = 64, kRight = 24, kTop = 44, kRow = 34, kBar = 26, kAxis = 26,
                          kLegend = 40;

  // Wide enough for a number in the shortest action, in a picture that can still be looked at.
  static double width_of(const Price& price) {
    return std::clamp(20 * price.makespan / price.shortest(), 320.0, 2400.0);
  }

  double x(double time) const { return kLeft + width_ * time / price_.makespan; }
  static double y(int rank) { return kTop + kRow * rank; }

  // Numbers at round times, 40 pixels apart or more.
  void draw_axis() {
    const double least = price_.makespan * 40 / width_;
    double step = std::pow(10, std::floor(std::log10(least)));
    for (const double factor : {2.0, 2.5, 2.0})
      if (step < least) step *= factor;
    const double bottom = y(spec_.ranks);
    for (int i = 0; i * step <= price_.makespan * (1 + 1e-9); ++i)
      text_ += fmt::format(
          "<line class=\"tick\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.0f}\" y2=\"{2:.0f}\"/>\n"
          "<text class=\"faint\" x=\"{0:.1f}\" y=\"{3:.0f}\" "
          "text-anchor=\"middle\">{4:.4g}</text>\n",
          x(i * step), kTop, bottom + 4, bottom + 18, i * step);
  }

  void draw_rank(int rank) {
    text_ += fmt::format(
        "<text class=\"ink\" x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"end\">rank {}</text>\n",
        kLeft - 12, y(rank) + kRow / 2 + 4, rank);
    for (const TimedAction& timed : price_.ranks[rank])
      if (!timed.action.is_message()) draw_bar(rank, timed);
  }

  // Later chunks are darker; white can be read on all.
  std::string color(const Action& action) const {
    const auto kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                   [&](const Kind& one) { return one.op == action.op; });
    const int chunk = action.stage / spec_.ranks;
    const double light = spec_.chunks == 1 ? 44 : 50 - 20.0 * chunk / (spec_.chunks - 1);
    return fmt::format("hsl({} 62% {:.0f}%)", kind->hue, light);
  }

  void draw_bar(int rank, const TimedAction& timed) {
    const double left = x(timed.begin), wide = x(timed.end) - left;
    const double top = y(rank) + (kRow - kBar) / 2;
    const std::string number = std::to_string(timed.action.micro_batch);
    text_ += fmt::format(
        "<g><title>{}: {:.4g} to {:.4g}</title><rect x=\"{:.1f}\" y=\"{:.0f}\" width=\"{:.1f}\" "
        "height=\"{:.0f}\" rx=\"2\" fill=\"{}\"/>",
        describe(timed.action), timed.begin, timed.end, left + 0.5, top, std::max(wide - 1, 0.5),
        kBar, color(timed.action));
    if (wide >= 7.0 * static_cast<double>(number.size()) + 3)
      text_ += fmt::format(
          "<text x=\"{:.1f}\" y=\"{:.0f}\" text-anchor=\"middle\" fill=\"#fff\">{}</text>",
          left + wide / 2, top + kBar / 2 + 4, number);
    text_ += "</g>\n";
  }

  // Only messages that take time are seen.
  void draw_message(const TimedAction& timed) {
    const bool sent =
        timed.action.op == Op::send_activation || timed.action.op == Op::send_gradient;
    if (!sent || timed.end <= timed.begin) return;
    const int from = spec_.rank_of(timed.action.stage), to = peer_of(timed.action, spec_);
    const double half = to > from ? kBar / 2 : -kBar / 2;
    text_ += fmt::format(
        "<line class=\"signal\" x1=\"{:.1f}\" y1=\"{:.0f}\" x2=\"{:.1f}\" y2=\"{:.0f}\"><title>{}: "
        "{:.4g} to {:.4g}</title></line>\n",
        x(timed.begin), y(from) + kRow / 2 + half, x(timed.end), y(to) + kRow / 2 - half,
        describe(timed.action), timed.begin, timed.end);
  }

  bool has(Op op) const {
    return std::any_of(price_.ranks[0].begin(), price_.ranks[0].end(),
                       [&](const TimedAction& timed) { return timed.action.op == op; });
  }

  void draw_legend(double at) {
    double left = 16;
    for (const Kind& kind : kKinds) {
      if (!has(kind.op)) continue;
      text_ += fmt::format(
          "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"12\" height=\"12\" rx=\"2\" fill=\"hsl({} 62% "
          "44%)\"/><text class=\"faint\" x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n",
          left, at - 10, kind.hue, left + 18, at, kind.words);
      left += 18 + 7.0 * static_cast<double>(std::string_view(kind.words).size()) + 20;
    }
    text_ += fmt::format("<text class=\"faint\" x=\"{:.0f}\" y=\"{:.0f}\">bubble {:.1f} %</text>\n",
                         left, at, 100 * price_.bubble());
  }

  const PipelineSpec& spec_;
  const Price& price_;
  const double width_;
  std::string text_;
};

}  // namespace

std::string svg_of(const PipelineSpec& spec, const Price& price, const std::string& title) {
  return SvgDrawing(spec, price).draw(title);
}

}  // namespace asup::parallel
