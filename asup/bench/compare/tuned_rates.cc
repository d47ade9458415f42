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

TunedRate best_of(std::vector<TriedRate> tried) {
  const auto worse = [](const auto& a, const auto& b) { return b.is_better_than(a); };
  std::sort(tried.begin(), tried.end(), lower);
  const double lr = std::max_element(tried.begin(), tried.end(), worse)->lr;
  return {lr, std::move(tried)};
}

std::vector<double> next_rates(double first, const std::vector<TriedRate>& tried) {
  std::vector<double> next;
  for (const double lr : {first / 2, first, first * 2})
    if (std::none_of(tried.begin(), tried.end(), [&](const auto& each) { return each.lr == lr; }))
      next.push_back(lr);
  if (!next.empty() || tried.size() >= kMostTries) return next;
  const TunedRate best = best_of(tried);
  if (best.lr == best.tried.front().lr) return {best.lr / 2};
  if (best.lr == best.tried.back().lr) return {best.lr * 2};
  return {};
}

TunedRate tune_rate(double first, const std::function<TriedRate(double lr)>& attempt) {
  std::vector<TriedRate> tried;
  for (auto next = next_rates(first, tried); !next.empty(); next = next_rates(first, tried))
    tried.push_back(attempt(next.front()));
  return best_of(std::move(tried));
}

TrainingRun tuning_run(TrainingRun run, double lr) {
  run.name = fmt::format("{}-tuning-{:g}", run.way.name, lr);
  run.seed = kSeed;
  run.lr = lr;
  run.flags.insert(run.flags.end(), {"--validation", kSetAside});
  return run;
}

TriedRate tried_by(const Training& training, const TrainingRun& tuning, int status) {
  const bool diverged = ended(training, tuning, status).diverged;
  const Figures figures =
      read_figures(tuning.folder(training), training.target, TestedOn::validation);
  fmt::print(stderr, "{} with a learning rate of {:g}: {:.2f} % of the samples set aside{}\n",
             tuning.way.name, *tuning.lr, figures.accuracy * 100, diverged ? ", diverged" : "");
  return {*tuning.lr, figures.accuracy, figures.seconds_to_target, diverged};
}

std::string job_of(const Training& training, const Way& way) {
  return fmt::format(
      "--model {} --data {} --workers {} --batch {} {} --optimizer {} --schedule {} "
      "--target {:g} {} {}",
      training.model, training.data, training.workers, training.batch,
      training.epochs > 0 ? fmt::format("--epochs {}", training.epochs)
                          : fmt::format("--steps {}", training.steps),
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

std::optional<TunedRate> TunedRates::find(const std::string& job) const {
  for (const Kept& each : kept_)
    if (each.job == job) return each.rate;
  return std::nullopt;
}

TunedRate TunedRates::of(const Training& training, const TrainingRun& run, ProgramRunner& runner) {
  const std::string job = job_of(training, run.way);
  if (const auto known = find(job)) return *known;
  const TunedRate rate = tune_rate(rate_of(training, run.way), [&](double lr) {
    const TrainingRun tuning = tuning_run(run, lr);
    start(training, tuning, runner);
    return tried_by(training, tuning, runner.wait().status);
  });
  keep(job, run.way, rate);
  return rate;
}

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
