#include "asup/collective/drawing/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "asup/base/svg.h"

namespace asup::collective::drawing {
namespace {

struct Point {
  double x, y;
};

class Picture {
 public:
  Picture(const Spec& spec, const Timeline& timeline)
      : spec_(spec),
        timeline_(timeline),
        column_(spec.ranks <= 8    ? 110
                : spec.ranks <= 20 ? 70
                                   : 40) {
    for (int lane = 0; lane < timeline.lanes; ++lane) {
      int ticks = 0;
      for (const Event& event : timeline.events)
        if (event.lane == lane) ticks = std::max(ticks, event.tick);
      tops_.push_back(height_ + kHead);
      ticks_.push_back(ticks);
      height_ += kHead + kRow * ticks + kFoot;
    }
  }

  std::string draw(const std::string& title) {
    const double width = std::max(kLeft + column_ * spec_.ranks + kRight, 560.0);
    const double height = height_ + kLegend;
    text_ = svg_head(width, height, title);
    for (int lane = 0; lane < timeline_.lanes; ++lane) draw_lane(lane);
    // Lines first, so that no line crosses a label.
    for (const Event& event : timeline_.events) draw_line(event);
    for (const Event& event : timeline_.events) draw_label(event);
    draw_legend();
    return text_ + "</svg>\n";
  }

 private:
  static constexpr double kLeft = 60, kRight = 24, kTitle = 40, kHead = 34, kRow = 64, kFoot = 18,
                          kLegend = 36;

  double x(int rank) const { return kLeft + column_ * (rank + 0.5); }
  // Where tick `tick` of the lane ends.
  double y(int lane, int tick) const { return tops_[static_cast<std::size_t>(lane)] + kRow * tick; }

  void draw_lane(int lane) {
    const int ticks = ticks_[static_cast<std::size_t>(lane)];
    text_ += fmt::format(
        "<text class=\"faint\" x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"end\">{}</text>\n",
        kLeft - 14, y(lane, 0) - 12,
        timeline_.lanes > 1 ? fmt::format("lane {}", lane) : std::string("round"));
    for (int tick = 0; tick <= ticks; ++tick) {
      text_ += fmt::format(
          "<line class=\"tick\" x1=\"{0:.0f}\" x2=\"{1:.0f}\" y1=\"{2:.0f}\" y2=\"{2:.0f}\"/>\n",
          kLeft, kLeft + column_ * spec_.ranks, y(lane, tick));
      if (tick > 0)
        text_ += fmt::format(
            "<text class=\"faint\" x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"end\">{}</text>\n",
            kLeft - 14, y(lane, tick) - kRow / 2 + 4, tick);
    }
    for (int rank = 0; rank < spec_.ranks; ++rank)
      text_ += fmt::format(
          "<line class=\"rank\" stroke-width=\"2\" x1=\"{0:.0f}\" x2=\"{0:.0f}\" y1=\"{1:.0f}\" "
          "y2=\"{2:.0f}\"/>\n<text class=\"ink\" x=\"{0:.0f}\" y=\"{3:.0f}\" "
          "text-anchor=\"middle\">{4}</text>\n",
          x(rank), y(lane, 0), y(lane, ticks), y(lane, 0) - 12, rank);
  }

  // Hues go round once over the whole; the lightness can be read on white and on black.
  std::string color(const AreaRange& range) const {
    const double place =
        spec_.count == 0 ? 0 : static_cast<double>(range.begin) / static_cast<double>(spec_.count);
    return fmt::format("hsl({:.0f} 70% 48%)", std::fmod(210 + 330 * std::min(place, 1.0), 360));
  }

  static std::string arrowhead(Point from, Point to) {
    const double angle = std::atan2(to.y - from.y, to.x - from.x);
    const auto corner = [&](double turn) {
      return fmt::format("{:.1f},{:.1f}", to.x - 9 * std::cos(angle + turn),
                         to.y - 9 * std::sin(angle + turn));
    };
    return fmt::format("M{:.1f},{:.1f} L{} L{} Z", to.x, to.y, corner(0.38), corner(-0.38));
  }

  void draw_arrow(Point from, Point to, const std::string& look, const std::string& fill,
                  const std::string& says) {
    text_ += fmt::format(
        "<g><title>{}</title><path {} fill=\"none\" d=\"M{:.1f},{:.1f} L{:.1f},{:.1f}\"/>"
        "<path {} d=\"{}\"/></g>\n",
        escaped(says), look, from.x, from.y, to.x, to.y, fill, arrowhead(from, to));
  }

  void draw_line(const Event& event) {
    const double begin = y(event.lane, event.tick - 1), end = y(event.lane, event.tick);
    const std::string says = describe(event, spec_);
    if (event.is_signal())
      return draw_arrow({x(event.from), begin + 4}, {x(event.to), end - 2},
                        "class=\"signal\" stroke-dasharray=\"1 4\"", "class=\"faint\"", says);
    const Step& step = event.step;
    if (event.is_message()) {
      const std::string paint = color(step.src);
      const bool added = event.received.op == Step::Op::recv_reduce;
      return draw_arrow({x(event.from), begin + 4}, {x(event.to), end - 2},
                        fmt::format("stroke=\"{}\" stroke-width=\"2\"{}", paint,
                                    added ? "" : " stroke-dasharray=\"6 3\""),
                        fmt::format("fill=\"{}\"", paint), says);
    }
    draw_memory(event, says);
  }

  // A square on the rank's line; a thin arrow where the bytes come from or go to.
  void draw_memory(const Event& event, const std::string& says) {
    const Step& step = event.step;
    const double middle = y(event.lane, event.tick) - kRow / 2;
    const std::string paint = color(step.dst);
    if (step.peer >= 0) {
      const bool reads = step.op == Step::Op::peer_read;
      const int from = reads ? step.peer : event.from, to = reads ? event.from : step.peer;
      const double side = to > from ? -7 : 7;
      draw_arrow({x(from), reads ? middle - 20 : middle},
                 {x(to) + side, reads ? middle : middle + 20},
                 fmt::format("stroke=\"{}\" stroke-opacity=\"0.7\"", paint),
                 fmt::format("fill=\"{}\"", paint), says);
    }
    text_ += fmt::format(
        "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"12\" height=\"12\" rx=\"2\" fill=\"{}\">"
        "<title>{}</title></rect>\n",
        x(event.from) - 6, middle - 6, paint, escaped(says));
  }

  // In a narrow picture, only the pointer tells ranges.
  void draw_label(const Event& event) {
    if (column_ < 100 || event.is_signal()) return;
    const Step& step = event.step;
    if (!event.is_message()) {
      if (step.peer >= 0) return;
      return draw_text({x(event.from) + 10, y(event.lane, event.tick) - kRow / 2 + 4}, "start",
                       fmt::format("{} [{}, {})", step.op == Step::Op::copy ? "copy" : "(+)",
                                   step.dst.begin, step.dst.end));
    }
    // Near the sender, before the arrow crosses others' columns; one after the other where several
    // leave together.
    const double way = std::abs(x(event.to) - x(event.from));
    const double along = std::min((0.27 + 0.46 * labels_before(event)) * column_ / way, 0.8);
    const double begin = y(event.lane, event.tick - 1) + 4;
    draw_text(
        {x(event.from) + along * (x(event.to) - x(event.from)), begin + along * (kRow - 6) + 4},
        "middle", fmt::format("[{}, {})", step.src.begin, step.src.end));
  }

  // Of arrows that leave the same rank in the same round and direction, those drawn before.
  int labels_before(const Event& event) const {
    int before = 0;
    for (const Event* other = &event; other != timeline_.events.data();) {
      --other;
      if (other->lane != event.lane || other->tick != event.tick || other->from != event.from)
        break;
      before += other->is_message() && !other->is_signal() &&
                (other->to > other->from) == (event.to > event.from);
    }
    return before;
  }

  void draw_text(Point at, const char* anchor, const std::string& words) {
    text_ += fmt::format(
        "<text class=\"ink label halo\" x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"{}\">{}</text>\n",
        at.x, at.y, anchor, escaped(words));
  }

  void draw_legend() {
    const double at = height_ + 14;
    double left = 16;
    const auto item = [&](const char* look, const char* words, double width) {
      text_ += fmt::format(
          "<line {0} x1=\"{1:.0f}\" x2=\"{2:.0f}\" y1=\"{3:.0f}\" y2=\"{3:.0f}\"/>"
          "<text class=\"faint\" x=\"{4:.0f}\" y=\"{5:.0f}\">{6}</text>\n",
          look, left, left + 28, at - 4, left + 34, at, words);
      left += width;
    };
    item("stroke=\"hsl(210 70% 48%)\" stroke-width=\"2\"", "added up by the receiver", 196);
    item("stroke=\"hsl(210 70% 48%)\" stroke-width=\"2\" stroke-dasharray=\"6 3\"", "copied", 100);
    item("class=\"signal\" stroke-dasharray=\"1 4\"", "signal", 96);
    text_ += fmt::format(
        "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"12\" height=\"12\" rx=\"2\" "
        "fill=\"hsl(210 70% 48%)\"/><text class=\"faint\" x=\"{:.0f}\" "
        "y=\"{:.0f}\">memory</text>\n",
        left, at - 10, left + 18, at);
  }

  const Spec& spec_;
  const Timeline& timeline_;
  const double column_;
  double height_ = kTitle;
  std::vector<double> tops_;  // of each lane
  std::vector<int> ticks_;    // of each lane
  std::string text_;
};

}  // namespace

std::string svg_of(const Spec& spec, const Timeline& timeline, const std::string& title) {
  return Picture(spec, timeline).draw(title);
}

}  // namespace asup::collective::drawing
