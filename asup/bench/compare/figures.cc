#include "asup/bench/compare/figures.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/report/metrics_file.h"

namespace asup::bench {
namespace {

using Json = nlohmann::ordered_json;

std::string metrics_in(const std::string& folder) { return folder + "/metrics.jsonl"; }

std::vector<CurvePoint> curve_in(const std::string& folder, TestedOn on) {
  const char* const accuracy = on == TestedOn::test ? "test_accuracy" : "validation_accuracy";
  std::vector<CurvePoint> curve;
  double testing = 0;
  for (const Json& row : report::read_metrics(metrics_in(folder))) {
    if (!row.contains("test_accuracy") && !row.contains("validation_accuracy")) continue;
    testing += row.at("eval_s").get<double>();
    if (row.contains(accuracy))
      curve.push_back(
          {row.at("step"), row.at("seconds").get<double>() - testing, row.at(accuracy)});
  }
  return curve;
}

void take_summary(const Json& summary, Figures& figures) {
  figures.bytes = summary.at("bytes_sent");
  figures.idle = summary.at("comm_share");
  figures.updates = summary.value("updates", summary.value("step", std::int64_t{0}));
  const Json server = summary.value("server", Json::object());
  figures.samples = server.value("samples", summary.at("samples").get<double>());
  figures.mean_staleness = server.value("mean_staleness_steps", 0.0);
  figures.worst_staleness = server.value("worst_staleness_steps", 0.0);
}

std::map<std::int64_t, double> losses_in(const std::string& folder) {
  std::map<std::int64_t, double> losses;
  for (const Json& row : report::read_metrics(metrics_in(folder)))
    if (row.contains("loss") && row.at("loss").is_number()) losses[row.at("step")] = row.at("loss");
  return losses;
}

}  // namespace

std::optional<double> seconds_to(const std::vector<CurvePoint>& curve, double target) {
  CurvePoint before;
  for (const CurvePoint& point : curve) {
    if (point.accuracy >= target) {
      const double share = (target - before.accuracy) / (point.accuracy - before.accuracy);
      return before.seconds + share * (point.seconds - before.seconds);
    }
    before = point;
  }
  return std::nullopt;
}

Figures read_figures(const std::string& folder, double target, TestedOn on) {
  Figures figures;
  try {
    figures.curve = curve_in(folder, on);
    figures.diverged = !std::filesystem::exists(folder + "/summary.json");
    if (!figures.diverged) take_summary(Json::parse(read_file(folder + "/summary.json")), figures);
  } catch (const nlohmann::json::exception& error) {
    throw BadInput(fmt::format("{}: is no run of this version of asup, or was changed ({})", folder,
                               error.what()));
  }
  figures.seconds_to_target = seconds_to(figures.curve, target);
  if (!figures.curve.empty()) {
    figures.seconds = figures.curve.back().seconds;
    figures.accuracy = figures.curve.back().accuracy;
  }
  return figures;
}

double seconds_of_a_step(const std::string& folder) {
  std::vector<double> times;
  for (const Json& row : report::read_metrics(metrics_in(folder)))
    if (row.contains("step_s")) times.push_back(row.at("step_s"));
  require(!times.empty(), "{}: tells of no step, so its time is not known", folder);
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

bool same_losses(const std::string& one, const std::string& other) {
  const auto losses = losses_in(one), others = losses_in(other);
  bool any = false;
  for (const auto& [step, loss] : losses) {
    const auto found = others.find(step);
    if (found == others.end()) continue;
    any = true;
    if (found->second != loss) return false;
  }
  return any;
}

Figures as_if_timed(Figures steps, const Figures& timed, double step_seconds, double target) {
  for (CurvePoint& point : steps.curve)
    point.seconds = static_cast<double>(point.step) * step_seconds;
  if (!steps.curve.empty()) steps.seconds = steps.curve.back().seconds;
  steps.seconds_to_target = seconds_to(steps.curve, target);
  steps.idle = timed.idle;
  return steps;
}

}  // namespace asup::bench
