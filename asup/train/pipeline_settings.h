// What a configuration says of a model whose layers are spread over workers (`--pipeline`). Pure;
// safe from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "asup/models/model.h"
#include "asup/parallel/schedule/schedule.h"
#include "asup/train/grid_settings.h"

namespace asup::train {

// Settings that mean something where there is a pipeline alone, by their names.
std::vector<std::string> pipeline_details();

// That a group's part of a whole batch is cut into: as set, or the most that divide it, up to four
// for each stage.
std::int64_t micro_batches_of(const TrainConfig& config);
// Whether groups get parts of a batch of one size, which micro-batches divide.
bool deals_evenly(const TrainConfig& config);
// Of so many samples, as many as divide them, and no smaller than half of the usual ones: what
// BatchNorm has statistics of there, it has here.
int micro_batches_for(std::int64_t samples, const TrainConfig& config);

// Samples of a whole batch that a worker computes at a time.
std::int64_t samples_at_a_time(const TrainConfig& config);

parallel::PipelineSpec pipeline_spec(const TrainConfig& config);

// Whether the cut is left to what is measured.
inline bool cuts_by_measure(const TrainConfig& config) { return config.pipeline_cut == "auto"; }
// What pipeline-cut says: layers of each stage; empty: `auto` and `even`. Throws BadInput for
// anything else, and for another number of stages.
std::vector<int> layers_by_setting(const TrainConfig& config);

// Throw BadInput that says what to change: for settings that do not go together, and for a model
// that cannot be cut so. needs: has_pipeline(), check_spread()
void check_pipeline(const TrainConfig& config);
void check_pipeline_of(const TrainConfig& config, models::Model& model);

}  // namespace asup::train
