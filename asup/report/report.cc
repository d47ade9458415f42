#include "asup/report/report.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/report/metrics_file.h"
#include "asup/report/run_folder.h"

namespace asup::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kPlaceholder = "{{run}}";
constexpr std::size_t kMostPoints = 1000;  // of a curve: more than a screen has columns

Json read_json(const std::string& path) {
  Json json = Json::parse(read_file(path), nullptr, /*allow_exceptions=*/false);
  require(json.is_object(), "{}: is not JSON as asup writes it", path);
  return json;
}

double number(const Json& row, const char* key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_number() ? found->get<double>() : 0;
}

// Several rows as one: rates over the whole of them, the rest as in the last.
Json merge(std::span<const Json> rows) {
  Json merged = rows.back();
  double samples = 0, loss = 0, step_s = 0, comm_s = 0;
  for (const Json& row : rows) {
    samples += number(row, "samples");
    loss += number(row, "loss") * number(row, "samples");
    step_s += number(row, "step_s");
    comm_s += number(row, "comm_s");
  }
  if (samples > 0) merged["loss"] = loss / samples;
  if (step_s > 0) {
    merged["samples_per_s"] = samples / step_s;
    merged["comm_share"] = comm_s / step_s;
  }
  return merged;
}

Json thinned(const std::vector<Json>& rows) {
  const std::size_t group = (rows.size() + kMostPoints - 1) / kMostPoints;
  Json out = Json::array();
  for (std::size_t begin = 0; begin < rows.size(); begin += group) {
    const std::size_t count = std::min(group, rows.size() - begin);
    out.push_back(merge(std::span(rows).subspan(begin, count)));
  }
  return out;
}

Json collect(const RunFolder& folder) {
  std::vector<Json> steps, tests;
  for (Json& row : read_metrics(folder.metrics_file())) {
    (row.contains("test_accuracy") ? tests : steps).push_back(std::move(row));
  }
  Json run{{"folder", std::filesystem::path(folder.path()).lexically_normal().string()},
           {"summary", read_json(folder.summary_file())},
           {"steps", thinned(steps)},
           {"tests", tests},
           {"config", read_file(folder.config_file())}};
  if (std::filesystem::exists(folder.evaluation_file())) {
    run["evaluation"] = read_json(folder.evaluation_file());
  }
  if (run["summary"].contains("server")) run["server"] = run["summary"]["server"];
  return run;
}

// JSON inside a script element: no text of the run may end it.
std::string for_script(const Json& json) {
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  for (std::size_t at = 0; (at = text.find('<', at)) != std::string::npos;) {
    text.replace(at, 1, "\\u003c");
  }
  return text;
}

}  // namespace

Summary read_summary(const std::string& run_folder) {
  const RunFolder folder(run_folder);
  folder.check_is_run();
  require(std::filesystem::exists(folder.summary_file()),
          "{}: this run has not ended, or was killed: there is no summary.json", run_folder);
  try {
    Summary summary = summary_from(read_json(folder.summary_file()));
    summary.facts.folder = run_folder;
    return summary;
  } catch (const nlohmann::json::exception& error) {
    throw BadInput(fmt::format("{}: is of another version of asup, or was changed ({})",
                               folder.summary_file(), error.what()));
  }
}

void write_report(const std::string& run_folder) {
  const RunFolder folder(run_folder);
  std::string page = kReportPage;
  const std::size_t at = page.find(kPlaceholder);
  check(at != std::string::npos, "the report's page has no {}", kPlaceholder);
  page.replace(at, kPlaceholder.size(), for_script(collect(folder)));
  write_atomically(folder.report_file(), page);
}

}  // namespace asup::report
