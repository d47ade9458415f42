#include "asup/train/checkpoint_info.h"

#include "asup/base/error.h"
#include "asup/checkpoint/reader.h"
#include "asup/data/load_plugin.h"
#include "asup/report/run_folder.h"
#include "asup/train/settings.h"

namespace asup::train {
namespace {

using Json = nlohmann::ordered_json;

Json config_json(const TrainConfig& config) {
  Json out;
  for (const SettingValue& value : values_of(config))
    if (value.setting->scope != config::Scope::call)
      out[std::string(value.setting->name)] = value.text;
  return out;
}

// Throws BadInput for a setting that this version does not have.
TrainConfig config_in(const Json& json) {
  config::Given given;
  for (const auto& [name, text] : json.items()) given.say(name, text.get<std::string>(), name);
  return config_from(std::move(given));
}

Totals totals_from(const Json& json) {
  Totals totals;
  json.at("seconds").get_to(totals.seconds);
  json.at("train_seconds").get_to(totals.train_seconds);
  json.at("comm_s").get_to(totals.comm_s);
  json.at("samples").get_to(totals.samples);
  totals.skipped_steps = json.value("skipped_steps", std::int64_t{0});
  json.at("bytes_sent").get_to(totals.bytes_sent);
  return totals;
}

// A library of the user's own may lie elsewhere now; whether it fits, its tensors say.
bool may_have_moved(const std::string& was, const std::string& now) {
  return data::is_plugin(was) && data::is_plugin(now);
}

}  // namespace

Json to_json(const CheckpointInfo& info) {
  Json json{{"step", info.step},
            {"ranks", info.ranks},
            {"config", config_json(info.config)},
            {"choices", to_json(info.choices)},
            {"totals",
             {{"seconds", info.totals.seconds},
              {"train_seconds", info.totals.train_seconds},
              {"comm_s", info.totals.comm_s},
              {"samples", info.totals.samples},
              {"skipped_steps", info.totals.skipped_steps},
              {"bytes_sent", info.totals.bytes_sent}}}};
  if (!info.model.empty()) json["model"] = info.model;
  if (!info.samples_by_worker.empty()) json["samples_by_worker"] = info.samples_by_worker;
  if (info.switched_after) json["switched_after"] = *info.switched_after;
  if (info.best) json["best_test"] = report::to_json(*info.best);
  for (const GradScalerState& each : info.loss_scales)
    json["loss_scales"].push_back({each.scale, each.steps_since_change});
  if (has_phases(info.config)) json["stall"] = info.stall.to_json();
  return json;
}

CheckpointInfo info_from(const Json& json, const std::string& path) try {
  CheckpointInfo info;
  json.at("step").get_to(info.step);
  json.at("ranks").get_to(info.ranks);
  info.config = config_in(json.at("config"));
  info.choices = choices_from(json.at("choices"));
  info.totals = totals_from(json.at("totals"));
  if (json.contains("switched_after"))
    info.switched_after = json.at("switched_after").get<std::int64_t>();
  if (json.contains("model")) json.at("model").get_to(info.model);
  if (json.contains("stall")) info.stall = Stall::from_json(json.at("stall"));
  if (json.contains("best_test")) info.best = report::best_from(json.at("best_test"));
  if (json.contains("loss_scales"))
    for (const Json& each : json.at("loss_scales"))
      info.loss_scales.push_back({each.at(0), each.at(1)});
  if (json.contains("samples_by_worker"))
    json.at("samples_by_worker").get_to(info.samples_by_worker);
  return info;
} catch (const nlohmann::json::exception& error) {
  throw BadInput(
      fmt::format("{}: is a checkpoint of another version of asup ({})", path, error.what()));
} catch (const BadInput& error) {
  throw BadInput(
      fmt::format("{}: is a checkpoint of another version of asup ({})", path, error.what()));
}

report::FoundCheckpoint newest_whole_checkpoint(const std::string& run_folder) {
  const report::RunFolder folder(run_folder);
  folder.check_is_run();
  report::FoundCheckpoint found = checkpoint::newest_whole(folder.series());
  require(!found.path.empty() || !found.newer.empty(),
          "{}: has no checkpoint to resume from (in checkpoints/)", run_folder);
  if (!found.path.empty()) return found;
  std::string whys;
  for (const auto& damaged : found.newer) whys += (whys.empty() ? "" : "; ") + damaged.why;
  throw BadInput(fmt::format("{}: has no whole checkpoint to resume from: {}", run_folder, whys));
}

void check_can_resume(const CheckpointInfo& info, const TrainConfig& config, std::int64_t steps) {
  const std::vector<SettingValue> before = values_of(info.config);
  for (const SettingValue& now : values_of(config)) {
    if (now.setting->scope != config::Scope::fixed) continue;
    for (const SettingValue& was : before)
      require(was.setting->name != now.setting->name || was.text == now.text ||
                  may_have_moved(was.text, now.text),
              "resume: the run has {} = {}, which cannot become {}. Leave it as it was.",
              now.setting->name, was.text, now.text);
  }
  require(info.step <= steps,
          "resume: the run has done {} steps, which is more than the {} asked for.", info.step,
          steps);
}

}  // namespace asup::train
