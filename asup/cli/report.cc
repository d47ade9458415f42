// asup report: makes a run's report anew and sums the run up.
#include "asup/report/report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <memory>

#include "asup/cli/command.h"
#include "asup/cli/usage.h"
#include "asup/report/progress.h"

namespace asup::cli {
namespace {

int report(const std::string& folder) {
  const report::Terminal terminal(STDOUT_FILENO);
  const report::Summary summary = report::read_summary(folder);
  report::write_report(folder);
  std::string head =
      fmt::format("{}  {}\n", terminal.styled(report::kBold, report::headline(summary.facts)),
                  report::describe_work(summary.facts));
  if (!summary.finished) {
    head += fmt::format("stopped after step {} of {}\n", summary.step, summary.facts.steps);
  }
  terminal.write(head + report::result_block(summary, terminal));
  return 0;
}

}  // namespace

Command add_report_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("report", "Sum up a run and make its report.html anew");
  set_usage(*command, "Usage: asup report FOLDER");
  auto folder = std::make_shared<std::string>();
  command->add_option("folder", *folder, "Run folder, as asup train --out made it")->required();
  return {command,
          [folder] { return report(*folder); },
          {},
          {{"asup report runs/mine", "the result here, and runs/mine/report.html"}}};
}

}  // namespace asup::cli
