// What a language model writes by itself, for people to read. Used from the thread that trains.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "asup/data/dataset.h"
#include "asup/models/model.h"

namespace asup::train {

struct GenerateOptions {
  double temperature = 0.8;  // scores are divided by it
  std::int64_t top_k = 40;   // the likeliest tokens, among which one is drawn
  std::uint64_t seed = 0;    // of the draws: the same model and seed write the same
  std::int64_t samples = 3;
  std::int64_t prompt = 48, tokens = 256;  // of a sample: given, and written at most
};

// generated.json: how it was drawn, and for each sample the prompt, which begins a window of the
// test, and the model's continuation. Leaves the model in training mode. needs: dataset.text()
nlohmann::ordered_json generate(models::Model& model, const data::Dataset& test,
                                const GenerateOptions& options);

}  // namespace asup::train
