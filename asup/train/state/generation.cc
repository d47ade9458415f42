#include "asup/train/state/generation.h"

#include <filesystem>

#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/collective/mesh/mesh_communicator.h"
#include "asup/collective/text_exchange.h"
#include "asup/report/run_folder.h"
#include "asup/train/phases.h"
#include "asup/train/settings.h"
#include "asup/train/worker_changes.h"

namespace asup::train {
namespace {

constexpr char kEnd = '\0';  // of a flag; no value has one

std::string to_text(const TrainConfig& config) {
  std::string text;
  for (const std::string& flag : to_flags(config)) text += flag + kEnd;
  return text;
}

TrainConfig from_text(const std::string& text) {
  config::Given given;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::string flag = text.substr(begin, text.find(kEnd, begin) - begin);
    begin += flag.size() + 1;
    const std::string name = flag.substr(2, flag.find('=') - 2);
    given.say(name, flag.substr(flag.find('=') + 1), "the job's " + name);
  }
  return config_from(std::move(given));
}

// How the run goes on, where it has found that out on its way (RunState::go_on_by).
void take_over_way(TrainConfig& now, const TrainConfig& before) {
  if (has_phases(now) || !has_phases(before)) return;
  now.then = before.then;
  now.at = before.at;
  now.balance = before.balance;
}

TrainConfig written_in(const std::string& folder) {
  config::Given given;
  given.read_toml(report::RunFolder(folder).config_file());
  return config_from(std::move(given));
}

}  // namespace

bool sees_folder(const TrainConfig& config) {
  const std::string file = report::RunFolder(config.out).config_file();
  std::error_code none;
  return std::filesystem::exists(file, none) && read_file(file) == to_toml(config);
}

TrainConfig settings_of_generation(Job& job, const TrainConfig& config, Begun begun) {
  const auto workers = asup::make_communicator(job, {});
  TrainConfig now = config;
  const bool has_checkpoint =
      begun == Begun::in_sight && !report::RunFolder(now.out).series().list().empty();
  if (has_checkpoint) take_over_way(now, written_in(now.out));
  if (job.generation() == 1) {
    check(config.workers == job.size(), "a configuration for {} workers in a job of {}",
          config.workers, job.size());
    const std::string text = broadcast_text(*workers, has_checkpoint ? to_text(now) : "");
    if (!text.empty()) take_over_way(now, from_text(text));
    now.out = broadcast_text(*workers, now.out);
    now.resume = broadcast_text(*workers, has_checkpoint ? now.out : now.resume);
    return now;
  }
  if (has_checkpoint) now.resume = now.out;
  const std::string text = broadcast_text(*workers, begun == Begun::elsewhere ? "" : to_text(now));
  if (text.empty())
    throw JobFailed(
        fmt::format("the worker that kept the run's folder is lost, and the first one that is left "
                    "does not see {}: resume the run on the host that has it (asup train --resume)",
                    now.out));
  now = from_text(text);
  now.workers = workers_in_groups(now, job.size());
  if (now.workers == 0)
    throw JobFailed(fmt::format(
        "{} of {} workers are left, and {} train one model together: resume the run with as many "
        "(asup train --resume {})",
        job.size(), config.workers, now.pipeline * now.tensor, now.out));
  now.servers = job.servers();
  return now;
}

}  // namespace asup::train
