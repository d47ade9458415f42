#include "asup/bench/compare/tuned_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "asup/base/error.h"
#include "asup/base/files.h"

namespace asup::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostTries = 6;
constexpr int kSeed = 1000;  // none that figures are of
constexpr const char* kSetAside = "0.1";

bool lower(const TriedRate& one, const TriedRate& other) { return one.lr < other.lr; }

TriedRate try_rate(const Training& training, TrainingRun run, double lr, ProgramRunner& runner) {
  run.name = fmt::format("{}-tuning-{:g}", run.way.name, lr);
  run.seed = kSeed;
  run.lr = lr;
  run.flags.insert(run.flags.end(), {"--validation", kSetAside});
  const bool diverged = train(training, run, runner).diverged;
  const Figures figures = read_figures(run.folder(training), training.target, TestedOn::validation);
  fmt::print(stderr, "{} with a learning rate of {:g}: {:.2f} % of the samples set aside{}\n",
             run.way.name, lr, figures.accuracy * 100, diverged ? ", diverged" : "");
  return {lr, figures.accuracy, figures.seconds_to_target, diverged};
}

Json json_of(const TriedRate& tried) {
  return {{"lr", tried.lr},
          {"validation_accuracy", tried.accuracy},
          {"seconds_to_target", tried.seconds_to_target ? Json(*tried.seconds_to_target) : Json()},
          {"diverged", tried.diverged}};
}

TriedRate tried_in(const Json& json) {
  TriedRate tried{json.at("lr"), json.at("validation_accuracy"), {}, json.at("diverged")};
  const Json& seconds = json.at("seconds_to_target");
  if (!seconds.is_null()) tried.seconds_to_target = seconds.get<double>();
  return tried;
}

}  // namespace

bool TriedRate::is_better_than(const TriedRate& other) const {
  if (diverged != other.diverged) return other.diverged;
  if (seconds_to_target && other.seconds_to_target)
    return *seconds_to_target < *other.seconds_to_target;
  if (seconds_to_target.has_value() != other.seconds_to_target.has_value())
    return seconds_to_target.has_value();
  return accuracy > other.accuracy;
}

TunedRate tune_rate(double first, const std::function<TriedRate(double lr)>& attempt) {
  TunedRate rate;
  for (const double factor : {0.5, 1.0, 2.0}) rate.tried.push_back(attempt(first * factor));
  for (;;) {
    const auto best =
        std::max_element(rate.tried.begin(), rate.tried.end(),
                         [](const auto& a, const auto& b) { return b.is_better_than(a); });
    rate.lr = best->lr;
    const bool lowest = best == rate.tried.begin(), highest = best + 1 == rate.tried.end();
    if ((!lowest && !highest) || rate.tried.size() == kMostTries) return rate;
    rate.tried.push_back(attempt(lowest ? best->lr / 2 : best->lr * 2));
    std::sort(rate.tried.begin(), rate.tried.end(), lower);
  }
}

std::string job_of(const Training& training, const Way& way) {
  return fmt::format(
      "--model {} --data {} --workers {} --batch {} --steps {} --optimizer {} --schedule {} "
      "--target {:g} {} {}",
      training.model, training.data, training.workers, training.batch, training.steps,
      training.optimizer, training.schedule, training.target, training.flags, way.flags);
}

TunedRates::TunedRates(std::string file) : file_(std::move(file)) {
  if (file_.empty() || !std::filesystem::exists(file_)) return;
  try {
    for (const Json& row : Json::parse(read_file(file_))) {
      Kept kept{row.at("job"), row.at("way"), {row.at("lr"), {}}};
      for (const Json& each : row.at("tried")) kept.rate.tried.push_back(tried_in(each));
      kept_.push_back(std::move(kept));
    }
  } catch (const nlohmann::json::exception& error) {
    throw BadInput(fmt::format("--rates {}: holds no learning rates ({})", file_, error.what()));
  }
}

TunedRate TunedRates::of(const Training& training, const TrainingRun& run, ProgramRunner& runner) {
  const std::string job = job_of(training, run.way);
  for (const Kept& each : kept_)
    if (each.job == job) return each.rate;
  const TunedRate rate = tune_rate(rate_of(training, run.way),
                                   [&](double lr) { return try_rate(training, run, lr, runner); });
  keep(job, run.way, rate);
  return rate;
}

// After each way: what was tuned is not lost with a run that is broken off.
void TunedRates::keep(const std::string& job, const Way& way, const TunedRate& rate) {
  kept_.push_back({job, way.name, rate});
  if (file_.empty()) return;
  Json rows = Json::array();
  for (const Kept& each : kept_) {
    Json tried = Json::array();
    for (const TriedRate& one : each.rate.tried) tried.push_back(json_of(one));
    rows.push_back({{"way", each.way}, {"job", each.job}, {"lr", each.rate.lr}, {"tried", tried}});
  }
  write_atomically(file_, rows.dump(1) + "\n");
}

}  // namespace asup::bench
