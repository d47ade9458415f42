#include "asup/train/generation.h"

#include <nlohmann/json.hpp>

#include "asup/base/error.h"
#include "asup/collective/mesh_communicator.h"
#include "asup/train/run_folder.h"
#include "asup/train/settings.h"
#include "asup/train/strings_exchange.h"

namespace asup::train {
namespace {

using Json = nlohmann::ordered_json;

std::string to_text(const TrainConfig& config) {
  Json values;
  for (const auto& setting : settings())
    values[std::string(setting.name)] = text_of(config, setting);
  return values.dump();
}

void adopt(const std::string& text, TrainConfig& config) {
  const Json values = Json::parse(text);
  for (const auto& setting : settings())
    assign_text(config, setting, values.at(std::string(setting.name)), setting.name);
}

}  // namespace

bool takes_newcomers(const TrainConfig& config) {
  const bool edges = config.graph.find('-') != config.graph.npos;  // between given workers
  return config.checkpoint_every.kind != Every::Kind::never && !edges;
}

TrainConfig settings_of_generation(Job& job, const TrainConfig& config) {
  if (job.generation() == 1) {
    check(config.workers == job.size(), "a configuration for {} workers in a job of {}",
          config.workers, job.size());
    return config;
  }
  TrainConfig now = config;
  if (job.rank() == 0) now.resume = RunFolder(now.out).list_checkpoints().empty() ? "" : now.out;
  const auto workers = asup::make_communicator(job, {});
  adopt(broadcast_text(*workers, to_text(now)), now);
  now.workers = job.size();
  now.servers = job.servers();
  return now;
}

}  // namespace asup::train
