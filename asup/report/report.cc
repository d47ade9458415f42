#include "asup/report/report.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/report/metrics_file.h"
#include "asup/report/read_run.h"
#include "asup/report/run_folder.h"
#include "asup/report/timeline/trace_file.h"

namespace asup::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kPlaceholder = "{{data}}";
constexpr std::string_view kMark = "<meta name=\"generator\" content=\"asup\">";
constexpr std::size_t kMostPoints = 1000;  // of a curve: more than a screen has columns

double number(const Json& row, const char* key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_number() ? found->get<double>() : 0;
}

// Several rows as one: rates over the whole of them, the rest as in the last.
Json merge(std::span<const Json> rows) {
  Json merged = rows.back();
  merged.erase("waits_s");
  double samples = 0, known = 0, loss = 0, step_s = 0, comm_s = 0;
  for (const Json& row : rows) {
    samples += number(row, "samples");
    if (row.contains("loss") && row["loss"].is_number()) known += number(row, "samples");
    loss += number(row, "loss") * number(row, "samples");
    step_s += number(row, "step_s");
    comm_s += number(row, "comm_s");
  }
  if (known > 0) merged["loss"] = loss / known;
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

// Seconds of each worker, as far as it is known: a row at a sync point has what all waited since
// the last one.
Json times_of_workers(const std::vector<Json>& rows) {
  Json workers = Json::array();
  double passed = 0;
  for (const Json& row : rows) {
    passed += number(row, "step_s");
    if (!row.contains("waits_s")) continue;
    const Json& waits = row["waits_s"];
    while (workers.size() < waits.size())
      workers.push_back({{"computing_s", 0.0}, {"waiting_s", 0.0}});
    for (std::size_t i = 0; i < waits.size(); ++i) {
      if (!waits[i].is_number()) continue;  // it is lost
      const double waited = std::min(waits[i].get<double>(), passed);
      workers[i]["waiting_s"] = workers[i]["waiting_s"].get<double>() + waited;
      workers[i]["computing_s"] = workers[i]["computing_s"].get<double>() + passed - waited;
    }
    passed = 0;
  }
  return workers;
}

// What the run did not come to know is left out: the page shows what is there.
Json without_unknown(Json summary) {
  for (const char* key : {"final_loss", "bytes_sent", "peak_memory_bytes", "peak_memory_bytes_max",
                          "weights_sha256", "checkpoint", "samples_per_s"}) {
    const Json& value = summary[key];
    const bool unknown = value == 0 || value == "" ||
                         (value.is_number_float() && !std::isfinite(value.get<double>()));
    if (unknown) summary.erase(key);
  }
  return summary;
}

Json collect(const RunFolder& folder) {
  const FoundRun found = read_run(folder.path());
  std::vector<Json> steps, tests;
  for (Json& row : read_metrics(folder.metrics_file())) {
    (row.contains("loss") ? steps : tests).push_back(std::move(row));
  }
  Json run{{"folder", std::filesystem::path(folder.path()).lexically_normal().string()},
           {"status", name_of(found.status)},
           {"failure", found.failure},
           {"summary", without_unknown(to_json(found.summary))},
           {"steps", thinned(steps)},
           {"tests", tests},
           {"workers", times_of_workers(steps)},
           {"config", read_file(folder.config_file())}};
  if (std::filesystem::exists(folder.evaluation_file())) {
    run["evaluation"] = read_json(folder.evaluation_file());
  }
  if (auto timeline = read_timeline_view(folder.timeline_file()))
    run["timeline"] = std::move(*timeline);
  if (std::filesystem::exists(folder.generated_file()))
    run["generated"] = read_json(folder.generated_file());
  return run;
}

std::string to_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// JSON inside a script element: no text of a run may end it.
std::string for_script(const Json& json) {
  std::string text = to_text(json);
  for (std::size_t at = 0; (at = text.find('<', at)) != std::string::npos;) {
    text.replace(at, 1, "\\u003c");
  }
  return text;
}

std::string page_with(const Json& data) {
  std::string page = kReportPage;
  const std::size_t at = page.find(kPlaceholder);
  check(at != std::string::npos, "the report's page has no {}", kPlaceholder);
  return page.replace(at, kPlaceholder.size(), for_script(data));
}

}  // namespace

void write_report(const std::string& run_folder) {
  const RunFolder folder(run_folder);
  write_atomically(folder.report_file(), page_with({{"runs", Json::array({collect(folder)})}}));
}

void write_comparison(std::span<const std::string> run_folders, const std::string& file) {
  require(!std::filesystem::exists(file) || read_file(file).find(kMark) != std::string::npos,
          "{}: is there already, and is no page of asup; choose another name (--out)", file);
  Json runs = Json::array();
  for (const std::string& folder : run_folders) runs.push_back(collect(RunFolder(folder)));
  write_atomically(file, page_with({{"runs", runs}}));
}

std::string live_page() { return page_with({{"live", true}}); }

std::string run_as_json(const std::string& run_folder) {
  return to_text(collect(RunFolder(run_folder)));
}

}  // namespace asup::report
