// The data sets and the model that a configuration names. Safe from any thread.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "asup/data/dataset.h"
#include "asup/data/sharding.h"
#include "asup/models/model.h"
#include "asup/train/config.h"

namespace asup::train {

// All throw BadInput that says what is wrong with the name or the file.
// `normalisation`: of images, where it is known already, as by the data set of the other split.
// `tokenizer`: of text, the model that tokenizer_model() or tokenizer_of() gives.
std::unique_ptr<data::Dataset> open_data(
    const TrainConfig& config, data::Split split,
    const std::optional<data::Normalisation>& normalisation = {},
    const std::string& tokenizer = {});
// The training samples that config.validation sets aside, as they are, without augmentation; null
// where there are none.
std::unique_ptr<data::Dataset> open_validation(
    const TrainConfig& config, const std::optional<data::Normalisation>& normalisation = {});
// Of the tokenizer that the configuration names, which may be trained here, by threads; empty for
// bytes, and where the data is no text.
std::string tokenizer_model(const TrainConfig& config);
// `tensor`: the ranks that it is cut over, where it is.
std::shared_ptr<models::Model> make_model(const TrainConfig& config, const data::Dataset& dataset,
                                          const models::MakeNorm& make_norm = {},
                                          const parallel::TensorGroup* tensor = nullptr);
// Those of a group of workers that train one model (grid_settings.h), or of a worker that has
// it whole.
std::unique_ptr<data::ShardedBatches> make_batches(const TrainConfig& config,
                                                   const data::Dataset& dataset, int group);

// Puts the weights that config.init names into the model. Its head, the tensors whose shape depends
// on the number of classes, begins fresh where it is of another size. A model of text must have the
// same tokens. Returns a line about it.
std::string begin_with_weights(models::Model& model, const TrainConfig& config,
                               const data::Dataset& dataset);

}  // namespace asup::train
