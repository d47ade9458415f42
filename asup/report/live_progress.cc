#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "asup/base/clock.h"
#include "asup/report/format.h"
#include "asup/report/progress.h"

namespace asup::report {
namespace {

constexpr double kSecondsBetweenFrames = 0.08;
constexpr std::string_view kHideCursor = "\x1b[?25l";
constexpr std::string_view kShowCursor = "\x1b[?25h";
constexpr std::string_view kClearLine = "\r\x1b[K";
constexpr int kIndent = 8;  // of what is said, behind the badge

// Speed over the last steps: each step, what came before counts for a little less.
struct Recent {
  double samples = 0, seconds = 0, comm = 0, steps = 0;

  void add(const StepRecord& record) {
    constexpr double kFade = 0.95;
    samples = samples * kFade + static_cast<double>(record.samples);
    seconds = seconds * kFade + record.step_seconds;
    comm = comm * kFade + record.comm_s;
    steps = steps * kFade + 1;
  }
  double per_second() const { return seconds > 0 ? samples / seconds : 0; }
  double share() const { return seconds > 0 ? comm / seconds : 0; }
  double step_seconds() const { return steps > 0 ? seconds / steps : 0; }
};

class LiveProgress : public Observer {
 public:
  explicit LiveProgress(const Terminal& terminal) : terminal_(terminal) {}
  ~LiveProgress() override {
    if (drawing_) terminal_.write(fmt::format("{}{}", kClearLine, kShowCursor));
  }

  void started(const RunFacts& facts) override {
    facts_ = facts;
    table_room_ = terminal_.room();
    std::string head =
        fmt::format("\n{}  {}\n", terminal_.styled(kBadge, " asup "), said(kBold, headline(facts)));
    const auto also = [&](const std::string& text) {
      if (!text.empty()) head += fmt::format("{:{}}{}\n", "", kIndent, said(kFaint, text));
    };
    also(describe_work(facts));
    also(describe_size(facts));
    also(facts.compute_note);
    also(describe_move(facts));
    also(facts.data_note);
    also(facts.stages);
    also(facts.tensor_groups);
    also(facts.sync_note);
    also(facts.init_note);
    also(facts.first_step > 0 ? fmt::format("resumed after step {}", facts.first_step) : "");
    const std::vector<std::string> heads{
        "epoch",       "train loss", fmt::format("{} loss", set_name(validates())),
        figure_name(), "time",       std::string(speed_unit(facts)),
        "comm"};
    head += "\n" + terminal_.styled(kFaint, table_line(heads));
    terminal_.write(fmt::format("{}{}\n", kHideCursor, head));
    drawing_ = true;
  }

  void stepped(const StepRecord& record) override {
    if (epoch_done_) end_epoch();
    recent_.add(record);
    epoch_.samples == 0 ? void(epoch_ = record) : epoch_.add(record);
    epoch_done_ = record.step % facts_.steps_per_epoch == 0 || record.step == facts_.steps;
    if (epoch_done_ || seconds_since(drawn_) > kSecondsBetweenFrames) draw();
  }

  void evaluating(std::int64_t samples) override {
    if (epoch_.samples == 0) return;  // nothing was trained
    testing_ = fmt::format("testing on {} samples …", grouped(samples));
    draw();
    testing_.clear();
  }

  // Where tests between are on validation samples, the test at the end is no row.
  void evaluated(const EvalRecord& record) override {
    if (record.validation != validates()) return;
    test_ = record;
    const double epochs =
        static_cast<double>(record.step) / static_cast<double>(facts_.steps_per_epoch);
    if (epoch_done_)
      end_epoch();
    else if (epoch_.samples > 0)
      write_row(fmt::format("{:.2f}/{}", epochs, facts_.epochs()));
  }

  void switched_strategy(std::int64_t after_step, const std::string& to) override {
    if (epoch_done_) end_epoch();
    const auto text = fmt::format("after step {} the run goes on by {}", after_step, to);
    terminal_.write(fmt::format("{}{:{}}{}\n", kClearLine, "", kIndent, said(kFaint, text)));
  }

  void ended(const Summary&) override {
    if (epoch_done_) end_epoch();
    terminal_.write(fmt::format("{}{}\n", kClearLine, kShowCursor));
    drawing_ = false;
  }

 private:
  // Behind an indent.
  std::string said(std::string_view style, const std::string& text) const {
    return terminal_.styled(style, wrapped(text, terminal_.room() - kIndent, kIndent));
  }

  bool validates() const { return facts_.validation_samples > 0; }
  std::string figure_name() const { return test_figure_name(facts_, validates()); }

  // "12/90", and "11.35/90" for a test between two epochs.
  int name_width() const {
    return std::max(7, visible_width(fmt::format("{0}.00/{0}", facts_.epochs())));
  }

  // The dearest first: the last ones go where the terminal is narrow.
  std::string table_line(std::span<const std::string> cells) const {
    const int figure = visible_width(figure_name()), test_loss = validates() ? 15 : 9;
    const std::array widths{name_width(), 10, test_loss, figure, 7, 9, 5};
    return table_row(cells, widths, std::min(table_room_, terminal_.room()));
  }

  // The epoch so far, and the test that was made there. The row stays, and the live line begins
  // anew below it.
  void write_row(const std::string& name) {
    std::string test_loss, figure;
    double seconds = epoch_.seconds;
    if (test_ && test_->step == epoch_.step) {
      test_loss = fmt::format("{:.4f}", test_->loss);
      figure = terminal_.styled(kGood, test_figure(*test_, 2));
      seconds = test_->seconds;
    }
    const std::vector<std::string> cells{name,
                                         fmt::format("{:.4f}", epoch_.loss),
                                         test_loss,
                                         figure,
                                         clock_time(seconds),
                                         grouped(per_second(epoch_.samples_per_s())),
                                         percent(epoch_.comm_share(), 0)};
    terminal_.write(fmt::format("{}{}\n", kClearLine, table_line(cells)));
  }

  // In the table's unit.
  std::int64_t per_second(double samples) const { return std::llround(speed(facts_, samples)); }

  void end_epoch() {
    write_row(epoch_name());
    epoch_ = {};
    epoch_done_ = false;
  }

  std::string epoch_name() const { return fmt::format("{}/{}", epoch_.epoch, facts_.epochs()); }

  double epoch_share() const {
    const std::int64_t first = (epoch_.epoch - 1) * facts_.steps_per_epoch;
    const std::int64_t last = std::min(first + facts_.steps_per_epoch, facts_.steps);
    return static_cast<double>(epoch_.step - first) / static_cast<double>(last - first);
  }

  double seconds_left() const {
    const auto steps = static_cast<double>(facts_.steps - epoch_.step);
    const auto epochs = std::ceil(steps / static_cast<double>(facts_.steps_per_epoch));
    return steps * recent_.step_seconds() + (test_ ? test_->eval_seconds * epochs : 0);
  }

  std::string bar(int width) const {
    const double filled = epoch_share() * width;
    const int whole = std::min(static_cast<int>(filled), width);
    const bool half = whole < width && filled - whole >= 0.5;
    std::string done, rest;
    for (int i = 0; i < whole; ++i) done += "━";
    if (half) done += "╸";
    for (int i = whole + (half ? 1 : 0); i < width; ++i) rest += "━";
    return terminal_.styled(kAccent, done) + terminal_.styled(kFaint, rest);
  }

  // What stands after the bar, the dearest first: the last ones go where the line is narrow.
  std::vector<std::string> fields() const {
    if (!testing_.empty()) return {testing_};
    std::vector<std::string> out{fmt::format("train loss {:.4f}", epoch_.loss),
                                 clock_time(seconds_left()) + " left"};
    if (epoch_.skipped > 0) out.push_back(counted(epoch_.skipped, "step") + " skipped");
    if (test_) out.push_back(fmt::format("{} {}", figure_name(), test_figure(*test_, 1)));
    out.push_back(fmt::format("{}/s", grouped(per_second(recent_.per_second()))));
    if (facts_.workers > 1) out.push_back(fmt::format("comm {}", percent(recent_.share(), 0)));
    return out;
  }

  void draw() {
    constexpr int kWidestBar = 30, kNarrowestBar = 4;
    const std::string percent_done = fmt::format("{:>4.0f} %", epoch_share() * 100);
    int room = terminal_.room() - name_width() - 2 - visible_width(percent_done) - kNarrowestBar;
    std::string after;
    for (const std::string& field : fields()) {
      const int width = visible_width(field) + 3;
      if (width > room) break;
      room -= width;
      after += "   " + field;
    }
    const int bar_width = std::clamp(kNarrowestBar + room, 0, kWidestBar);
    // Overwritten, then cleared to the right: nothing flickers.
    terminal_.write(fmt::format("\r{:>{}}  {}{}{}\x1b[K", epoch_name(), name_width(),
                                bar(bar_width), percent_done, after));
    drawn_ = Clock::now();
  }

  const Terminal terminal_;
  RunFacts facts_;
  int table_room_ = 0;  // of its head, which rows keep to
  StepRecord epoch_;    // of this epoch so far
  bool epoch_done_ = false;
  Recent recent_;
  std::optional<EvalRecord> test_;
  std::string testing_;
  Clock::time_point drawn_;
  bool drawing_ = false;
};

}  // namespace

std::unique_ptr<Observer> make_live_progress(const Terminal& terminal) {
  return std::make_unique<LiveProgress>(terminal);
}

}  // namespace asup::report
