// What a shared library of a user's is built for: it must be what asup itself was built with, since
// they hand each other C++ objects. Compared as text, before anything else of it is called.
#pragma once

#include <torch/version.h>

#include "asup/base/version.h"

// Another number with every change to what such a library derives from: Dataset and Model.
#define ASUP_PLUGIN_INTERFACE "4"

#define ASUP_PLUGIN_STAMP \
  "asup " ASUP_VERSION " with interface " ASUP_PLUGIN_INTERFACE " and torch " TORCH_VERSION

// Seen from outside, however the library is compiled.
#define ASUP_PLUGIN_EXPORT extern "C" __attribute__((visibility("default")))
