#include <fmt/format.h>

#include "asup/base/clock.h"
#include "asup/report/format.h"
#include "asup/report/progress.h"

namespace asup::report {
namespace {

constexpr double kSecondsBetweenLines = 5;
constexpr int kIndent = 2;  // of a line that goes on, where it is a terminal's

class PlainProgress : public Observer {
 public:
  explicit PlainProgress(const Terminal& terminal) : terminal_(terminal) {}

  void started(const RunFacts& facts) override {
    facts_ = facts;
    line("asup train: {} · {} · {}", headline(facts), describe_work(facts), describe_size(facts));
    if (!facts.compute_note.empty()) line("{}", facts.compute_note);
    if (const std::string move = describe_move(facts); !move.empty()) line("{}", move);
    if (!facts.data_note.empty()) line("{}", facts.data_note);
    if (!facts.stages.empty()) line("{}", facts.stages);
    if (!facts.tensor_groups.empty()) line("{}", facts.tensor_groups);
    if (!facts.sync_note.empty()) line("{}", facts.sync_note);
    if (!facts.init_note.empty()) line("{}", facts.init_note);
    if (facts.first_step > 0) line("resumed after step {}", facts.first_step);
    said_ = Clock::now();
  }

  void stepped(const StepRecord& record) override {
    since_.samples == 0 ? void(since_ = record) : since_.add(record);
    if (record.step == facts_.steps || seconds_since(said_) > kSecondsBetweenLines) say();
  }

  void switched_strategy(std::int64_t after_step, const std::string& to) override {
    line("after step {} the run goes on by {}", after_step, to);
  }

  void evaluated(const EvalRecord& record) override {
    line("epoch {}/{}  step {}/{}  {} {}  {} loss {:.4f}  {:.1f} s", record.epoch, facts_.epochs(),
         record.step, facts_.steps, test_figure_name(facts_, record.validation),
         test_figure(record, 2), set_name(record.validation), record.loss, record.eval_seconds);
  }

  void ended(const Summary&) override {
    if (since_.samples > 0) say();
  }

 private:
  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) const {
    const std::string text = fmt::format(format, std::forward<Args>(args)...);
    terminal_.write(wrapped(text, terminal_.room() - kIndent, kIndent) + "\n");
  }

  void say() {
    const std::string skipped =
        since_.skipped > 0 ? fmt::format("  {} skipped", counted(since_.skipped, "step")) : "";
    line("epoch {}/{}  step {}/{}  train loss {:.4f}  {:.0f} {}  communication {}  {}{}",
         since_.epoch, facts_.epochs(), since_.step, facts_.steps, since_.loss,
         speed(facts_, since_.samples_per_s()), speed_unit(facts_), percent(since_.comm_share(), 1),
         clock_time(since_.seconds), skipped);
    since_ = {};
    said_ = Clock::now();
  }

  const Terminal terminal_;
  RunFacts facts_;
  StepRecord since_;  // the last line
  Clock::time_point said_;
};

}  // namespace

std::unique_ptr<Observer> make_plain_progress(const Terminal& terminal) {
  return std::make_unique<PlainProgress>(terminal);
}

}  // namespace asup::report
