#include "asup/bench/compare/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <sstream>
#include <utility>

#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/base/numbers.h"
#include "asup/base/suggest.h"
#include "asup/train/resolve.h"
#include "asup/train/settings.h"
#include "asup/train/state/check_inputs.h"
#include "asup/train/state/inputs.h"

namespace asup::bench {
namespace {

using Words = std::vector<std::string>;

void append(Words& words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
}

std::string slowness_of(const Training& training, const TrainingRun& run) {
  if (!run.takes_its_time) return "";
  return fmt::format("ASUP_INJECTED_SLOWNESS=sample_ms={} {}", training.sample_ms, run.slowness);
}

// What the way says goes over what all have: of a flag that is given twice, the last counts.
Words train_flags(const Training& training, const TrainingRun& run) {
  const bool by_epochs = training.epochs > 0;
  const std::string every =
      by_epochs ? "epoch" : std::to_string(std::max(1, training.steps / training.tests));
  Words flags{"--model",
              training.model,
              "--data",
              training.data,
              "--batch",
              std::to_string(training.batch),
              by_epochs ? "--epochs" : "--steps",
              std::to_string(by_epochs ? training.epochs : training.steps),
              "--optimizer",
              training.optimizer,
              "--lr",
              fmt::format("{}", training.lr),
              "--schedule",
              training.schedule,
              "--seed",
              std::to_string(run.seed),
              "--threads",
              std::to_string(training.threads),
              "--eval-every",
              every,
              "--checkpoint-every",
              "never",
              "--out",
              run.folder(training)};
  append(flags, words_of(training.flags));
  append(flags, run.way.words());
  if (run.lr) append(flags, {"--lr", fmt::format("{}", *run.lr)});
  append(flags, run.flags);
  return flags;
}

std::string where_in(const TrainingRun& run) { return fmt::format("the way {}", run.way.name); }

constexpr std::array kOwnFlags{"out", "resume", "workers", "servers", "hosts", "stop-at"};

// As the command line is read, word by word.
config::Given said_by(const Words& words, const std::string& where) {
  config::Given given;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const std::size_t equals = word.find('=');
    require(word.starts_with("--"), "{}: '{}' is no flag of asup train", where, word);
    std::string name = word.substr(2, equals == word.npos ? equals : equals - 2);
    const config::Setting* setting = train::find_setting(name);
    std::string value = "true";
    if (!setting && name.starts_with("no-")) {
      setting = train::find_setting(name.substr(3));
      value = "false";
    }
    require(setting != nullptr, "{}: asup train has no flag --{}{}", where, name,
            did_you_mean(name, train::setting_names()));
    if (equals != word.npos) {
      value = word.substr(equals + 1);
    } else if (!setting->is_flag()) {
      require(i + 1 < words.size(), "{}: --{} wants a value", where, name);
      value = words[++i];
    }
    given.say(setting->name, value, fmt::format("--{}", setting->name));
  }
  return given;
}

train::TrainConfig config_of(const Training& training, const TrainingRun& run) {
  const config::Given all = said_by(train_flags(training, run), where_in(run));
  try {
    train::TrainConfig config = train::config_from(all);
    config.workers = training.workers;
    config.servers = run.way.has_servers(training.flags) ? training.workers : 0;
    return train::resolve(config);
  } catch (const BadInput& error) {
    throw BadInput(fmt::format("{}: {}", where_in(run), error.what()));
  }
}

std::string log_of(const std::string& folder) { return folder + ".log"; }

// The last line, which says who failed, and the one before it, which often says why.
std::string last_words_of(const std::string& text) {
  std::istringstream lines(text);
  std::string before, last;
  for (std::string line; std::getline(lines, line);) {
    if (line.find_first_not_of(" -") == std::string::npos) continue;
    before = std::exchange(last, line);
  }
  return before.empty() ? last : before + " / " + last;
}

}  // namespace

std::string optimizer_of(const Training& training, const Way& way) {
  const std::string own = value_of(words_of(training.flags + " " + way.flags), "--optimizer");
  return own.empty() ? training.optimizer : own;
}

double rate_of(const Training& training, const Way& way) {
  const std::string own = value_of(words_of(training.flags + " " + way.flags), "--lr");
  return own.empty() ? training.lr : number_in<double>(own).value_or(training.lr);
}

void Training::set_lr(const std::string& text) {
  tunes = text == "auto";
  if (tunes) return;
  const auto number = number_in<double>(text);
  require(number && *number > 0, "--lr {}: a number above 0, or auto", text);
  lr = *number;
}

void Training::check() const {
  require(workers >= 2 && workers <= 64, "--workers {}: between 2 and 64", workers);
  require(steps >= 1 && batch >= workers,
          "--steps {} --batch {}: one step, and a sample a worker, "
          "are the least",
          steps, batch);
  require(tests >= 1 && tests <= steps, "--tests {}: between 1 and the {} steps", tests, steps);
  require(sample_ms > 0 && sample_ms <= 1e4,
          "--sample-ms {}: a sample takes more than 0 and at most 10000 milliseconds", sample_ms);
  require(target > 0 && target < 1, "--target {}: an accuracy is between 0 and 1, like 0.8",
          target);
  require(lr > 0, "--lr {}: must be above 0", lr);
  require(rates.empty() || tunes, "--rates {}: learning rates are tuned with --lr auto alone",
          rates);
}

void check_run(const Training& training, const TrainingRun& run) {
  const std::string where = where_in(run);
  Words said = words_of(training.flags);
  append(said, run.way.words());
  const config::Given way = said_by(said, where);
  for (const char* name : kOwnFlags)
    require(!way.has(name), "{}: --{} is for the benchmark to say", where, name);
  const train::TrainConfig config = config_of(training, run);
  try {
    train::check_inputs(config);
  } catch (const BadInput& error) {
    throw BadInput(fmt::format("{}: {}", where, error.what()));
  }
}

std::int64_t training_samples(const Training& training, const TrainingRun& run) {
  const auto dataset = train::open_data(config_of(training, run), data::Split::train);
  return static_cast<std::int64_t>(dataset->size());
}

std::string TrainingRun::folder(const Training& training) const {
  return std::filesystem::absolute(training.folder) / name;
}

std::vector<std::string> command_of(const Training& training, const TrainingRun& run,
                                    const std::string& program) {
  const Words flags = train_flags(training, run);
  if (run.hosts == nullptr) {
    Words words{program, "train", "--workers", std::to_string(training.workers)};
    append(words, flags);
    return words;
  }
  Words words{program, "run"};
  append(words, run.hosts->run_flags());
  if (run.way.has_servers(training.flags))
    append(words, {"--servers", std::to_string(training.workers)});
  if (run.takes_its_time) append(words, {"--env", slowness_of(training, run)});
  append(words, {"--", program, "train"});
  append(words, flags);
  return run.hosts->on_first_host(words);
}

pid_t start(const Training& training, const TrainingRun& run, ProgramRunner& runner) {
  const std::string folder = run.folder(training);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(training.folder);
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  Words variables;
  if (run.takes_its_time) variables.push_back(slowness_of(training, run));
  return runner.start(command_of(training, run, program), variables, log_of(folder));
}

Figures ended(const Training& training, const TrainingRun& run, int status) {
  const std::string folder = run.folder(training), log = log_of(folder);
  const std::string said = status == 0 ? "" : read_file(log);
  asup::check(status == 0 || said.find("has diverged") != std::string::npos,
              "the run {} failed: {}. All that it said is in {}", run.name, last_words_of(said),
              log);
  return read_figures(folder, training.target);
}

Figures train(const Training& training, const TrainingRun& run, ProgramRunner& runner) {
  start(training, run, runner);
  return ended(training, run, runner.wait().status);
}

}  // namespace asup::bench
