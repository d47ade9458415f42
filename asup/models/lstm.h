// A recurrent language model: Zaremba, Sutskever and Vinyals, "Recurrent neural network
// regularization", 2014, https://arxiv.org/abs/1409.2329, with one matrix for both ends (Press and
// Wolf, 2017, https://arxiv.org/abs/1608.05859). A window begins with no memory of the one before.
#pragma once

#include "asup/models/model.h"

namespace asup::models {

// Width 256 and depth 2 unless the options say otherwise.
std::shared_ptr<Model> make_lstm(const ModelOptions& options);

}  // namespace asup::models
