// A trained model by itself: its weights, and what they are of. A run leaves them as
// model.safetensors; checkpoints have them too. Values and whole files; safe from any thread.
#pragma once

#include <torch/torch.h>

#include <set>
#include <string>
#include <vector>

#include "asup/checkpoint/reader.h"
#include "asup/data/dataset.h"
#include "asup/train/config.h"

namespace asup::train {

using checkpoint::Metadata;

struct Weights {
  std::string path{};                   // of the file or the checkpoint
  checkpoint::TensorsByName tensors{};  // parameters and buffers
  Metadata metadata{};                  // as of describe_model(), or as another program said it
};

// Of a model that was trained by these settings on this data:
//
//   asup             the version            step             that it was trained to
//   model, data      as given               input_shape      "3x32x32"
//   classes          "10"                   convolution_path that it was tested with
//   normalisation    JSON: mean and deviation of each channel, where pixels were taken by them
//   tokenizer        base64: the tokenizer's model, where text was not taken by bytes
//   settings         JSON: those that make it the model it is, by name
Metadata describe_model(const TrainConfig& config, const data::Dataset& dataset,
                        const std::string& convolution_path, std::int64_t step);

// The configuration that they were trained by, as far as it says what they are of; none in files
// that another program wrote. Throws BadInput for settings that this version does not have.
std::optional<TrainConfig> config_of(const Weights& weights);
// What its pixels are to be taken by; none where that is not known.
std::optional<data::Normalisation> normalisation_of(const Weights& weights);

// Of the tokenizer; empty where it has none. `path` opens a BadInput's message.
std::string tokenizer_of(const Metadata& metadata, const std::string& path);

// A copy of what the module has now.
Weights copy_weights(const torch::nn::Module& module, Metadata metadata);

// Whole or not at all. Throws Error where it cannot be written.
void write_weights(const std::string& path, const Weights& weights);

// Of a safetensors file, of a checkpoint's folder, or of a run folder: its model.safetensors or, of
// a run that has not come to its end, its newest whole checkpoint. Throws BadInput for what cannot
// be read or is corrupt.
Weights read_weights(const std::string& run_or_file);

// Puts them into the module. Tensors of the `head` may have another shape: those stay as they are,
// and are returned. Throws BadInput that names what else differs, and says what the weights are of;
// the module is as it was then. `config`: what the module was made by.
std::vector<std::string> load_weights(torch::nn::Module& module, const Weights& weights,
                                      const TrainConfig& config,
                                      const std::set<std::string>& head = {});

}  // namespace asup::train
