#include "asup/report/timeline/step_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "asup/base/svg.h"

namespace asup::report {
namespace {

constexpr std::size_t kMostProcesses = 16;
constexpr std::size_t kMostSpans = 1500;  // of a row: the longest
constexpr double kWidth = 1160, kLeft = 158, kRight = 8, kTop = 4, kAxis = 40;
constexpr double kTall = 26, kLow = 15, kGap = 3, kBetween = 12;  // rows, and between them
constexpr double kLetter = 6.6;                                   // pixels, about

std::string_view name_of_event(const TimelineEvent& event) {
  return event.name ? std::string_view(event.name) : name_of(event.activity);
}

std::string duration(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} µs", seconds * 1e6);
  return seconds < 1 ? fmt::format("{:.2f} ms", seconds * 1e3) : fmt::format("{:.2f} s", seconds);
}

// What the pointer is told.
std::string description(const TimelineEvent& event) {
  std::string text = fmt::format("{}: {}", name_of_event(event),
                                 duration(static_cast<double>(event.end - event.begin) * 1e-9));
  const auto add = [&](const char* name, std::int64_t value) {
    if (value >= 0) text += fmt::format("\n{} {}", name, value);
  };
  if (event.name && event.activity != Activity::program)
    text += fmt::format("\n{}", name_of(event.activity));
  if (event.detail) text += fmt::format("\n{}", event.detail);
  add("step", event.step);
  add("stage", event.stage);
  add("micro-batch", event.micro_batch);
  add("bucket", event.bucket);
  if (event.bytes >= 0) text += fmt::format("\n{} bytes", event.bytes);
  return text;
}

// What is written on it, where there is room.
std::string label(const TimelineEvent& event, double width) {
  const auto fits = [&](std::string_view text) {
    return kLetter * static_cast<double>(text.size()) + 4 <= width;
  };
  const std::string name(name_of_event(event));
  const std::string number = event.micro_batch >= 0 ? std::to_string(event.micro_batch)
                             : event.bucket >= 0    ? std::to_string(event.bucket)
                                                    : std::string();
  if (!number.empty() && fits(name + " " + number)) return name + " " + number;
  if (number.empty() && fits(name)) return name;
  return fits(number) ? number : "";
}

// Human steps along the axis: 1, 2 or 5 times a power of ten.
double tick_of(double span) {
  const double rough = span / 8, power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= rough) return factor * power;
  return 10 * power;
}

struct Span {
  const TimelineEvent* event;
  int depth;
};

// Of a track, those in the window that are to be seen, enclosing ones first.
std::vector<Span> spans_in(const TimelinePart::Track& track, const StepWindow& window) {
  const std::vector<int> depth = depths(track);
  std::vector<Span> spans;
  for (std::size_t i = 0; i < track.events.size(); ++i) {
    const TimelineEvent& event = track.events[i];
    if (event.kind == TimelineEvent::Kind::span && event.begin < window.end &&
        event.end > window.begin && event.activity != Activity::operation)
      spans.push_back({&event, depth[i]});
  }
  if (spans.size() <= kMostSpans) return spans;
  std::stable_sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return a.event->end - a.event->begin > b.event->end - b.event->begin;
  });
  spans.resize(kMostSpans);
  std::stable_sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return a.event->begin != b.event->begin ? a.event->begin < b.event->begin : a.depth < b.depth;
  });
  return spans;
}

class StepDrawing {
 public:
  StepDrawing(const std::vector<TimelinePart>& processes, const StepWindow& window)
      : processes_(processes), window_(window) {}

  std::string draw() {
    std::size_t drawn = 0;
    for (const TimelinePart& process : processes_)
      if (drawn < kMostProcesses && draw_process(process)) ++drawn;
    const std::string axis = draw_axis();
    return fmt::format(
        "<svg viewBox=\"0 0 {:.0f} {:.0f}\" width=\"100%\" role=\"img\" aria-label=\"step {}, by "
        "rank\">{}{}</svg>",
        kWidth, y_ + kAxis, window_.step, axis, text_);
  }

  const std::set<Activity>& seen() const { return seen_; }

 private:
  double x(std::int64_t time) const {
    const auto place = static_cast<double>(time - window_.begin) /
                       static_cast<double>(std::max<std::int64_t>(window_.end - window_.begin, 1));
    return kLeft + std::clamp(place, 0.0, 1.0) * (kWidth - kLeft - kRight);
  }

  bool draw_process(const TimelinePart& process) {
    const auto* training = training_track(process);
    const double top = y_;
    bool is_first = true;
    const auto draw = [&](const TimelinePart::Track& track) {
      const auto spans = spans_in(track, window_);
      if (spans.empty()) return;
      const double height = &track == training ? kTall : kLow;
      if (is_first)
        text_ += fmt::format("<text x=\"0\" y=\"{:.1f}\" font-weight=\"600\">{}</text>",
                             y_ + height / 2 + 4, escaped(process.name));
      draw_row(track.name, spans, height);
      is_first = false;
    };
    if (training) draw(*training);
    for (const auto& track : process.tracks)
      if (&track != training) draw(track);
    if (y_ > top) y_ += kBetween;
    return y_ > top;
  }

  void draw_row(const std::string& name, const std::vector<Span>& spans, double height) {
    text_ += fmt::format("<text x=\"{:.0f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>", kLeft - 8,
                         y_ + height / 2 + 4, escaped(name));
    text_ += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"var(--pale)\" "
        "opacity=\"0.5\"/>",
        kLeft, y_, kWidth - kLeft - kRight, height);
    for (const Span& span : spans) draw_span(span, height);
    y_ += height + kGap;
  }

  // Inner spans lie on outer ones, a little lower.
  void draw_span(const Span& span, double height) {
    const TimelineEvent& event = *span.event;
    const double left = x(event.begin), width = std::max(x(event.end) - left, 0.4);
    const bool is_step = event.activity == Activity::step;
    const double inset = is_step ? 0 : std::min(2.5 * std::max(span.depth - 1, 0), height / 3);
    if (!is_step) seen_.insert(event.activity);
    text_ += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" fill=\"{}\"{}><title>{}"
        "</title></rect>",
        left, y_ + inset, width, height - inset, color_of(event.activity),
        width > 3 && !is_step ? " stroke=\"var(--card)\" stroke-width=\"0.7\"" : "",
        escaped(description(event)));
    const std::string words = is_step || height < kTall ? "" : label(event, width);
    if (!words.empty())
      text_ += fmt::format(
          "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" style=\"fill: var(--card); "
          "font-size: 11px; pointer-events: none\">{}</text>",
          left + width / 2, y_ + inset + (height - inset) / 2 + 4, escaped(words));
  }

  std::string draw_axis() const {
    const double span = static_cast<double>(window_.end - window_.begin) * 1e-6;  // ms
    const double step = tick_of(std::max(span, 1e-6));
    std::string text;
    for (int i = 0; i * step <= span * 1.0001; ++i) {
      const double at = kLeft + i * step / span * (kWidth - kLeft - kRight);
      text += fmt::format(
          "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"0\" y2=\"{1:.1f}\" stroke=\"var(--line)\"/>"
          "<text x=\"{0:.1f}\" y=\"{2:.1f}\" text-anchor=\"middle\">{3:.6g}</text>",
          at, y_, y_ + 14, i * step);
    }
    return text + fmt::format(
                      "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">milliseconds of step "
                      "{}</text>",
                      (kLeft + kWidth - kRight) / 2, y_ + 32, window_.step);
  }

  const std::vector<TimelinePart>& processes_;
  const StepWindow window_;
  double y_ = kTop;
  std::string text_;
  std::set<Activity> seen_;
};

}  // namespace

std::string_view color_of(Activity activity) {
  using enum Activity;
  switch (activity) {
    case forward:
      return "var(--c0)";
    case backward:
      return "var(--c5)";
    case backward_weight:
      return "var(--c7)";
    case optimizer:
    case update:
      return "var(--c2)";
    case exchange:
    case send:
    case recv:
    case push:
    case pull:
      return "var(--c1)";
    case wait:
    case lease:
      return "var(--c6)";
    case encode:
      return "var(--c3)";
    case data:
      return "var(--c4)";
    case load:
      return "color-mix(in srgb, var(--c4) 45%, var(--card))";
    case idle:
    case step:
      return "var(--pale)";
    case sync_point:
    case test:
    case checkpoint:
    case operation:
    case program:
      return "var(--soft)";
  }
  return "var(--soft)";
}

StepPicture draw_step(const std::vector<TimelinePart>& processes, const StepWindow& window) {
  StepDrawing picture(processes, window);
  StepPicture drawn;
  drawn.svg = picture.draw();
  drawn.activities.assign(picture.seen().begin(), picture.seen().end());
  return drawn;
}

}  // namespace asup::report
