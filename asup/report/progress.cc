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
  return text + fmt::format(" · batch {} · {}", grouped(facts.batch), facts.optimizer);
}

std::string describe_size(const RunFacts& facts) {
  return fmt::format("{} parameters · {} training and {} test samples", grouped(facts.parameters),
                     grouped(facts.train_samples), grouped(facts.test_samples));
}

std::string describe_move(const RunFacts& facts) {
  if (facts.moved_to.empty()) return "";
  return fmt::format("the run that was in {} is now in {}", facts.folder, facts.moved_to);
}

std::string result_block(const Summary& summary, const Terminal& terminal) {
  constexpr int kIndent = 17;  // of the values
  std::string out;
  const auto line = [&](std::string_view name, const std::string& value) {
    out += fmt::format("  {}  {}\n", terminal.styled(kFaint, fmt::format("{:<13}", name)),
                       wrapped(value, terminal.room() - kIndent, kIndent));
  };
  if (summary.test) {
    line("test accuracy", terminal.styled(kGood, percent(summary.test->test_accuracy, 2)));
    line("test loss", fmt::format("{:.4f}", summary.test->test_loss));
  }
  if (std::isfinite(summary.final_loss)) line("train loss", loss_text(summary.final_loss));
  line("time",
       fmt::format("{} for {}", clock_time(summary.seconds), counted(summary.step, "step")));
  if (summary.samples > 0)
    line("speed", fmt::format("{} samples/s",
                              grouped(static_cast<std::int64_t>(summary.samples_per_s() + 0.5))));
  if (summary.facts.workers > 1 && summary.samples > 0) {
    const std::string sent =
        summary.bytes_sent > 0 ? fmt::format(", {} sent", byte_size(summary.bytes_sent)) : "";
    line("communication", fmt::format("{} of the time{}", percent(summary.comm_share(), 1), sent));
  }
  if (!summary.facts.then.empty())
    line("way", summary.switched_after ? fmt::format("{}, {} after step {}", summary.facts.sync,
                                                     summary.facts.then, *summary.switched_after)
                                       : fmt::format("{}: it did not come to {}",
                                                     summary.facts.sync, summary.facts.then));
  if (!summary.server.empty()) line("servers", describe_servers(summary));
  if (summary.peak_memory_bytes > 0) line("peak memory", byte_size(summary.peak_memory_bytes));
  line("report", terminal.styled(kBold, summary.facts.folder + "/report.html"));
  return out;
}

}  // namespace asup::report
