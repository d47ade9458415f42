// The data sets and the model that a configuration names. Safe from any thread.
#pragma once

#include <memory>

#include "asup/data/dataset.h"
#include "asup/data/sharding.h"
#include "asup/models/model.h"
#include "asup/train/config.h"

namespace asup::train {

// All throw BadInput that says what is wrong with the name or the file.
std::unique_ptr<data::Dataset> open_data(const TrainConfig& config, data::Split split);
std::shared_ptr<models::Model> make_model(const TrainConfig& config, const data::Dataset& dataset);
std::unique_ptr<data::ShardedBatches> make_batches(const TrainConfig& config,
                                                   const data::Dataset& dataset, int rank);

}  // namespace asup::train
