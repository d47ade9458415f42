#include "asup/report/read_run.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/base/json.h"
#include "asup/report/format.h"
#include "asup/report/metrics_file.h"
#include "asup/report/run_folder.h"

namespace asup::report {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

void add_steps(Summary& summary, const Json& row) {
  if (row.at("loss").is_number()) row["loss"].get_to(summary.final_loss);
  summary.skipped_steps += row.value("skipped", std::int64_t{0});
  summary.samples += row.at("samples").get<std::int64_t>();
  summary.train_seconds += row.at("step_s").get<double>();
  summary.comm_s += row.at("comm_s").get<double>();
  if (row.contains("consensus_distance") && row["consensus_distance"].is_number())
    summary.consensus_distance = row["consensus_distance"].get<double>();
  if (row.contains("noise_scale") && row["noise_scale"].is_number())
    summary.noise_scale = row["noise_scale"].get<double>();
  const bool switched = row.contains("sync") && row["sync"] == summary.facts.then;
  if (switched && !summary.switched_after) summary.switched_after = summary.step;
}

void add_row(Summary& summary, const Json& row) {
  if (const auto test = figures_of_test(row))
    summary.test = test;
  else if (const auto validation = figures_of_validation(row))
    summary.validation = validation;
  else
    add_steps(summary, row);
  row.at("step").get_to(summary.step);
  row.at("seconds").get_to(summary.seconds);
}

Summary sum_up_rows(const RunFolder& folder) {
  Summary summary;
  summary.facts = facts_from(read_json(folder.facts_file()));
  summary.final_loss = std::nan("");
  for (const Json& row : read_metrics(folder.metrics_file())) add_row(summary, row);
  if (summary.facts.servers > 0 && fs::exists(folder.server_file()))
    summary.server = read_json(folder.server_file()).dump();
  if (const auto kept = folder.series().list(); !kept.empty())
    summary.checkpoint = fs::path(kept.back()).filename().string();
  return summary;
}

std::string failure_in(const RunFolder& folder) {
  std::string text = read_file(folder.failure_file());
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

FoundRun read(const RunFolder& folder) {
  if (fs::exists(folder.summary_file())) {
    const Summary summary = summary_from(read_json(folder.summary_file()));
    return {summary.finished ? RunStatus::done : RunStatus::stopped, "", summary};
  }
  require(fs::exists(folder.facts_file()),
          "{}: nothing is known of this run: it ended before its first step, or is of an earlier "
          "version of asup, which this one cannot read before it has ended",
          folder.path());
  FoundRun found{RunStatus::killed, "", sum_up_rows(folder)};
  if (fs::exists(folder.failure_file())) {
    found.status = RunStatus::failed;
    found.failure = failure_in(folder);
  } else if (is_being_written(folder.metrics_file())) {
    found.status = RunStatus::running;
  }
  return found;
}

}  // namespace

Json read_json(const std::string& path) {
  Json json = try_json<Json>(read_file(path));
  require(json.is_object(), "{}: is not JSON as asup writes it", path);
  return json;
}

FoundRun read_run(const std::string& path) {
  const RunFolder folder(path);
  folder.check_is_run();
  try {
    FoundRun found = read(folder);
    found.summary.facts.folder = path;
    return found;
  } catch (const nlohmann::json::exception& error) {
    throw BadInput(fmt::format("{}: its files are of another version of asup, or were changed ({})",
                               path, error.what()));
  }
}

std::string_view name_of(RunStatus status) {
  switch (status) {
    case RunStatus::done:
      return "done";
    case RunStatus::stopped:
      return "stopped";
    case RunStatus::running:
      return "running";
    case RunStatus::failed:
      return "failed";
    case RunStatus::killed:
      return "killed";
  }
  return "?";
}

std::string describe_end(const FoundRun& run) {
  if (run.status == RunStatus::done) return "";
  const std::string text = fmt::format("{} {} step {} of {}", name_of(run.status),
                                       run.status == RunStatus::running ? "at" : "after",
                                       grouped(run.summary.step), grouped(run.summary.facts.steps));
  return run.failure.empty() ? text : fmt::format("{}: {}", text, run.failure);
}

}  // namespace asup::report
