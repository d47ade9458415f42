// A data set in a shared library of a user's own (plugin.h). Safe from any thread.
#pragma once

#include <memory>
#include <string>

#include "asup/data/dataset.h"

namespace asup::data {

// Throws BadInput, with the path, for a library that cannot be used or whose first sample is not
// what the data set says of itself.
std::unique_ptr<Dataset> open_plugin_dataset(const std::string& path, Split split,
                                             const DatasetOptions& options);

}  // namespace asup::data
