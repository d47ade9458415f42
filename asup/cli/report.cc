// asup report: makes a run's report anew and sums the run up, or compares several.
#include "asup/report/report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

#include "asup/base/error.h"
#include "asup/cli/command.h"
#include "asup/cli/usage.h"
#include "asup/report/format.h"
#include "asup/report/progress.h"
#include "asup/report/read_run.h"

namespace asup::cli {
namespace {

struct ReportFlags {
  std::vector<std::string> folders;
  std::string out;
};

int report_one(const std::string& folder) {
  const report::Terminal terminal(STDOUT_FILENO);
  const report::FoundRun run = report::read_run(folder);
  report::write_report(folder);
  const report::RunFacts& facts = run.summary.facts;
  std::string head =
      fmt::format("{}  {}\n", terminal.styled(report::kBold, report::headline(facts)),
                  report::describe_work(facts));
  if (const std::string end = report::describe_end(run); !end.empty()) head += end + "\n";
  terminal.write(head + report::result_block(run.summary, terminal));
  return 0;
}

// A run's line of the comparison; what is not known is a dash.
std::string line_of(const report::FoundRun& run, std::size_t width) {
  const report::Summary& summary = run.summary;
  const auto figure = summary.test ? report::test_figure(*summary.test, 2) : std::string("–");
  const auto loss =
      std::isfinite(summary.final_loss) ? report::loss_text(summary.final_loss) : std::string("–");
  return fmt::format(
      "{:<{}}  {:<8}{:>9}{:>17}{:>10}{:>10}{:>11}\n", summary.facts.folder, width,
      report::name_of(run.status), report::grouped(summary.step), figure, loss,
      report::clock_time(summary.seconds),
      report::grouped(std::llround(report::speed(summary.facts, summary.samples_per_s()))));
}

int compare(const std::vector<std::string>& folders, const std::string& file) {
  const report::Terminal terminal(STDOUT_FILENO);
  std::size_t width = 3;
  for (const std::string& folder : folders) width = std::max(width, folder.size());
  std::string lines;
  std::set<std::string> figures, units;  // of images and of text may be compared, as far as it goes
  for (const std::string& folder : folders) {
    const report::FoundRun run = report::read_run(folder);
    figures.emplace(report::test_figure_name(run.summary.facts));
    units.emplace(report::speed_unit(run.summary.facts));
    lines += line_of(run, width);
  }
  std::string text = terminal.styled(
      report::kFaint, fmt::format("{:<{}}  {:<8}{:>9}{:>17}{:>10}{:>10}{:>11}", "run", width,
                                  "status", "step", figures.size() == 1 ? *figures.begin() : "test",
                                  "loss", "time", units.size() == 1 ? *units.begin() : "speed"));
  text += "\n" + lines;
  report::write_comparison(folders, file);
  terminal.write(text + fmt::format("comparison  {}\n", terminal.styled(report::kBold, file)));
  return 0;
}

int run_report(const ReportFlags& flags) {
  if (flags.folders.size() > 1)
    return compare(flags.folders, flags.out.empty() ? "comparison.html" : flags.out);
  require(flags.out.empty(),
          "--out is for the page of several runs; the report of one is in its folder");
  return report_one(flags.folders.front());
}

}  // namespace

Command add_report_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "report", "Sum up a run and make its report.html anew, or compare several");
  set_usage(*command, "Usage: asup report FOLDER... [--out FILE]");
  auto flags = std::make_shared<ReportFlags>();
  command->add_option("folders", flags->folders, "Run folders, as asup train --out made them")
      ->required();
  command->add_option("--out", flags->out, "Page of several runs")
      ->type_name("FILE")
      ->default_str("comparison.html");
  return {command,
          [flags] { return run_report(*flags); },
          {},
          {{"asup report runs/mine", "its report.html, whether it has ended, failed or runs"},
           {"asup report runs/a runs/b runs/c", "the three on one page, comparison.html"},
           {"asup report runs/a runs/b --out both.html", "the same in another file"}}};
}

}  // namespace asup::cli
