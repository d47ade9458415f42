#include "asup/train/tuned_choices.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "asup/base/files.h"
#include "asup/base/json.h"
#include "asup/base/log.h"
#include "asup/parallel/cut/cut_file.h"
#include "asup/train/pipeline_settings.h"

namespace asup::train {
namespace {

using Json = nlohmann::ordered_json;

// "model name" on x86-64; "CPU implementer" and "CPU part" on aarch64.
std::string processor() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::string name;
  for (std::string line; std::getline(cpuinfo, line) && !line.empty();) {
    const bool tells = line.starts_with("model name") || line.starts_with("CPU implementer") ||
                       line.starts_with("CPU part");
    const auto colon = line.find(": ");
    if (tells && colon != std::string::npos) name += line.substr(colon + 1);
  }
  return name.empty() ? " unknown processor" : name;
}

}  // namespace

Json to_json(const TunedChoices& choices) {
  Json json{{"compute_path", choices.compute_path},
            {"threads", choices.threads},
            {"observed", choices.observed},
            {"rates", choices.rates}};
  if (!choices.parts.empty()) json["parts"] = choices.parts;
  if (!choices.stages.empty()) json["stages"] = choices.stages;
  if (choices.layers) json["layers"] = parallel::to_json(*choices.layers);
  return json;
}

TunedChoices choices_from(const Json& json) {
  TunedChoices choices;
  // Runs of before it was measured wrote the path of convolutions alone.
  json.at(json.contains("compute_path") ? "compute_path" : "convolution_path")
      .get_to(choices.compute_path);
  json.at("threads").get_to(choices.threads);
  json.at("observed").get_to(choices.observed);
  choices.rates = json.value("rates", "");  // runs that chose by rule did not write it
  if (json.contains("parts")) json.at("parts").get_to(choices.parts);
  if (json.contains("stages")) json.at("stages").get_to(choices.stages);
  if (json.contains("layers"))
    choices.layers = parallel::cut_problem_from(nlohmann::json(json.at("layers")), "layers");
  return choices;
}

Json ComputePathCache::read() const {
  std::ifstream in(file());
  Json known = try_json<Json>(std::string(std::istreambuf_iterator<char>(in), {}));
  return known.is_object() ? known : Json::object();
}

std::optional<RememberedPath> ComputePathCache::find(const std::string& key) const {
  if (folder_.empty()) return std::nullopt;
  const Json known = read();
  const auto found = known.find(key);
  if (found == known.end() || !found->is_object()) return std::nullopt;
  const Json &path = found->value("path", Json()), &note = found->value("note", Json());
  if (!path.is_string() || !note.is_string()) return std::nullopt;
  return RememberedPath{path, note};
}

void ComputePathCache::remember(const std::string& key, const RememberedPath& path) const {
  if (folder_.empty()) return;
  try {
    Json known = read();
    known[key] = {{"path", path.path}, {"note", path.note}};
    std::filesystem::create_directories(folder_);
    write_atomically(file(), known.dump(1) + "\n");
  } catch (const std::exception& error) {
    log().info("how the model was computed fastest is not remembered: {}", error.what());
  }
}

std::string compute_path_key(const TrainConfig& config, const std::string& hosts,
                             const std::string& device, const std::string& torch_version,
                             const std::string& input_shape, std::int64_t threads) {
  return fmt::format(
      "{} on{} ({}, {}), torch {}: width {}, depth {}, stem {}, images {}, {} samples, "
      "{} threads, {} workers, convolutions {}, {} in memory, precision {}, tf32 {}",
      config.model, processor(), hosts, device, torch_version, config.width.value_or(0),
      config.depth.value_or(0), config.stem, input_shape, samples_at_a_time(config), threads,
      config.workers, config.conv_path, config.memory_format, config.precision, config.tf32);
}

}  // namespace asup::train
