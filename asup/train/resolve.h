// Fills in what a configuration leaves open. Pure; safe from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "asup/train/config.h"

namespace asup::train {

// Learning rate, epochs, servers. Refuses combinations that cannot work, with a sentence that says
// why and what to change: by what strategies are capable of, never by their names. Looks at
// settings alone, at no file.
TrainConfig resolve(TrainConfig config);

// C, H, W of a text like "3x32x32"; throws BadInput that shows the form.
std::vector<std::int64_t> parse_shape(const std::string& text);

}  // namespace asup::train
