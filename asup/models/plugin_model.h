// A model in a shared library of a user's own (plugin.h). Safe from any thread.
#pragma once

#include "asup/models/model.h"

namespace asup::models {

// Throws BadInput, with the path, for a library that cannot be used or whose model does not make
// scores of such inputs.
std::shared_ptr<Model> make_plugin_model(const std::string& path, const ModelOptions& options);

}  // namespace asup::models
