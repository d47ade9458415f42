#include "asup/report/progress.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "asup/report/format.h"

namespace asup::report {
namespace {

class Silence : public Observer {};

std::string describe_servers(const Summary& summary) {
  const auto server = nlohmann::json::parse(summary.server);
  std::string text = fmt::format(
      "{} at pace {}, {}, gradients {:.2g} steps late on average and {:.2g} at most",
      summary.facts.servers, summary.facts.pace,
      counted(server.value("updates", std::int64_t{0}), "update"),
      server.value("mean_staleness_steps", 0.0), server.value("worst_staleness_steps", 0.0));
  if (const auto dropped = server.value("samples_dropped", std::int64_t{0}); dropped > 0)
    text += fmt::format(", {} dropped", counted(dropped, "sample"));
  return text;
}

}  // namespace

std::unique_ptr<Observer> make_progress(const std::string& mode, const Terminal& terminal) {
  if (mode == "none") return std::make_unique<Silence>();
  if (mode == "auto" && terminal.live()) return make_live_progress(terminal);
  return make_plain_progress(terminal);
}

std::string headline(const RunFacts& facts) {
  return fmt::format("{} on {}", facts.model, facts.data);
}

std::string describe_work(const RunFacts& facts) {
  const std::string workers = facts.workers == 1 ? "1 worker" : counted(facts.workers, "worker");
  std::string text = fmt::format("{} × {}", workers, counted(facts.threads, "thread"));
  if (facts.device != "cpu") text += " on " + facts.device;
  const std::string sync = facts.then.empty() ? facts.sync : facts.sync + ", then " + facts.then;
  if (facts.servers > 0)
    text += fmt::format(" · {}, {} at pace {} over {}", sync, counted(facts.servers, "server"),
                        facts.pace, facts.links);
  else if (facts.workers > 1)
    text += fmt::format(" · {} over {}", sync, facts.links);
  text += fmt::format(" · batch {}", grouped(facts.batch));
  if (!facts.batch_schedule.empty())
    text += fmt::format(", {}, {} updates", facts.batch_schedule, grouped(facts.updates));
  text += " · " + facts.optimizer;
  return facts.learning_rate.empty() ? text : text + ", " + facts.learning_rate;
}

std::string describe_size(const RunFacts& facts) {
  std::string text =
      fmt::format("{} parameters · {} training and {} test samples", grouped(facts.parameters),
                  grouped(facts.train_samples), grouped(facts.test_samples));
  if (facts.validation_samples > 0)
    text += fmt::format(", {} for validation", grouped(facts.validation_samples));
  if (facts.tokens_per_sample > 0)
    text += fmt::format(" of {}", counted(facts.tokens_per_sample, "token"));
  return text;
}

std::string_view set_name(bool validation) { return validation ? "validation" : "test"; }

std::string test_figure_name(const RunFacts& facts, bool validation) {
  return fmt::format("{} {}", set_name(validation),
                     facts.tokens_per_sample > 0 ? "perplexity" : "accuracy");
}

std::string test_figure(const EvalRecord& test, int digits) {
  if (!test.perplexity) return percent(test.accuracy, digits);
  return fmt::format("{:.{}f}", *test.perplexity, *test.perplexity < 100 ? 3 : 1);
}

std::string_view speed_unit(const RunFacts& facts) {
  return facts.tokens_per_sample > 0 ? "tokens/s" : "samples/s";
}

double speed(const RunFacts& facts, double samples_per_s) {
  const std::int64_t tokens = facts.tokens_per_sample;
  return tokens > 0 ? samples_per_s * static_cast<double>(tokens) : samples_per_s;
}

std::string describe_move(const RunFacts& facts) {
  if (facts.moved_to.empty()) return "";
  return fmt::format("the run that was in {} is now in {}", facts.folder, facts.moved_to);
}

std::string result_block(const Summary& summary, const Terminal& terminal) {
  const std::string widest = test_figure_name(summary.facts, summary.validation.has_value());
  const int indent = 4 + std::max<int>(13, static_cast<int>(widest.size()));
  std::string out;
  const auto line = [&](std::string_view name, const std::string& value) {
    out +=
        fmt::format("  {}  {}\n", terminal.styled(kFaint, fmt::format("{:<{}}", name, indent - 4)),
                    wrapped(value, terminal.room() - indent, indent));
  };
  if (summary.test) {
    line(test_figure_name(summary.facts), terminal.styled(kGood, test_figure(*summary.test, 2)));
    if (summary.test->bits_per_byte)
      line("bits per byte", fmt::format("{:.4f}", *summary.test->bits_per_byte));
    if (summary.test->top5) line("test top-5", percent(*summary.test->top5, 2));
    line("test loss", fmt::format("{:.4f}", summary.test->loss));
  }
  if (summary.validation)
    line(test_figure_name(summary.facts, true), test_figure(*summary.validation, 2));
  if (std::isfinite(summary.final_loss)) line("train loss", loss_text(summary.final_loss));
  line("time",
       fmt::format("{} for {}", clock_time(summary.seconds), counted(summary.step, "step")));
  if (summary.ended_early && summary.best)
    line("ended early",
         fmt::format("no test was better than that after step {}, {} ago",
                     grouped(summary.best->step), counted(summary.best->tests_since, "test")));
  if (summary.samples > 0)
    line("speed",
         fmt::format("{} {}", grouped(std::llround(speed(summary.facts, summary.samples_per_s()))),
                     speed_unit(summary.facts)));
  if (summary.facts.workers > 1 && summary.samples > 0) {
    const std::string sent =
        summary.bytes_sent > 0 ? fmt::format(", {} sent", byte_size(summary.bytes_sent)) : "";
    line("communication", fmt::format("{} of the time{}", percent(summary.comm_share(), 1), sent));
  }
  if (summary.bubble) line("bubble", fmt::format("{} of a step", percent(*summary.bubble, 1)));
  if (!summary.facts.then.empty())
    line("way", summary.switched_after ? fmt::format("{}, {} after step {}", summary.facts.sync,
                                                     summary.facts.then, *summary.switched_after)
                                       : fmt::format("{}: it did not come to {}",
                                                     summary.facts.sync, summary.facts.then));
  if (!summary.server.empty()) line("servers", describe_servers(summary));
  if (summary.skipped_steps > 0)
    line("skipped", fmt::format("{}, whose gradients were infinite or NaN",
                                counted(summary.skipped_steps, "step")));
  if (summary.broken_samples > 0)
    line("broken", fmt::format("{} could not be read; others took their places",
                               counted(summary.broken_samples, "image")));
  if (summary.peak_memory_bytes > 0) {
    const std::string on_gpus =
        summary.peak_device_memory_bytes > 0
            ? fmt::format(", and {} of GPUs", byte_size(summary.peak_device_memory_bytes))
            : "";
    line("peak memory", byte_size(summary.peak_memory_bytes) + on_gpus);
  }
  line("report", terminal.styled(kBold, summary.facts.folder + "/report.html"));
  return out;
}

}  // namespace asup::report
