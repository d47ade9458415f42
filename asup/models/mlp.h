// A stack of fully connected layers with ReLU between them.
#pragma once

#include "asup/models/model.h"

namespace asup::models {

// Width 256 and depth 2 unless the options say otherwise. Any input shape, flattened.
std::shared_ptr<Model> make_mlp(const ModelOptions& options);

// Throws BadInput where its layers cannot be cut over so many ranks.
void require_parts_of_mlp(const ModelOptions& options, int ranks);

}  // namespace asup::models
