// What a checkpoint is of: how far the run had come, its settings, what was chosen and counted.
// Values only.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "asup/precision/grad_scaler.h"
#include "asup/report/checkpoint_series.h"
#include "asup/report/records.h"
#include "asup/train/config.h"
#include "asup/train/phases.h"
#include "asup/train/stall.h"
#include "asup/train/tuned_choices.h"

namespace asup::train {

// What a summary counts over the whole run, resumed or not.
struct Totals {
  double seconds = 0;
  double train_seconds = 0;
  double comm_s = 0;
  std::int64_t samples = 0;
  std::int64_t skipped_steps = 0;
  std::uint64_t bytes_sent = 0;
};

struct CheckpointInfo {
  std::int64_t step = 0;  // done
  std::int64_t ranks = 0;
  TrainConfig config;
  TunedChoices choices;
  Totals totals;
  std::map<std::string, std::string> model{};     // what it is of: describe_model()
  std::vector<std::int64_t> samples_by_worker{};  // where each went at its own pace
  // Of a run that changes its way: the step after which it did, and what it knows of the loss.
  std::optional<std::int64_t> switched_after{};
  Stall stall{};
  std::optional<report::BestTest> best{};
  std::vector<GradScalerState> loss_scales{};  // by worker, where losses are scaled

  // As it counted when it was saved.
  TrainConfig config_of_phase() const {
    return of_phase(config, switched_after ? Phase::second : Phase::first);
  }
};

nlohmann::ordered_json to_json(const CheckpointInfo& info);
// Throws BadInput for JSON of another form, naming `path`.
CheckpointInfo info_from(const nlohmann::ordered_json& json, const std::string& path);

// The newest checkpoint of a run folder that is whole: every bit of it is as it was written. Throws
// BadInput where there is none, and says what is wrong with each that is there.
report::FoundCheckpoint newest_whole_checkpoint(const std::string& run_folder);

// Throws BadInput unless a run with this configuration, of so many steps, can go on from the
// checkpoint: every setting of Scope::fixed is as it was. With another number of workers it goes
// on, though not to the same bits.
void check_can_resume(const CheckpointInfo& info, const TrainConfig& config, std::int64_t steps);

}  // namespace asup::train
