#include "asup/data/load_plugin.h"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "asup/data/plugin_stamp.h"

namespace asup::data {
namespace {

constexpr const char* kPage = "docs/your_own_model.md shows how";

void* open_library(const std::string& path) {
  require(std::filesystem::is_regular_file(path), "{}: there is no such library", path);
  // Without a slash, it would be looked for among the system's.
  void* library = ::dlopen(std::filesystem::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL);
  require(library != nullptr,
          "{}: cannot be loaded ({}). Where it was built for another asup or torch, build it again",
          path, ::dlerror());
  return library;
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

}  // namespace

bool is_plugin(const std::string& name) { return name.ends_with(".so"); }

void* find_in_plugin(const std::string& path, const std::string& kind) {
  void* library = open_library(path);
  const std::string name = "asup_" + kind;
  void* stamp = ::dlsym(library, (name + "_stamp").c_str());
  void* function = ::dlsym(library, name.c_str());
  require(stamp != nullptr && function != nullptr,
          "{}: has no {} for asup: {}(…) is not in it ({})", path, kind, upper(name), kPage);
  const std::string built_for = reinterpret_cast<const char* (*)()>(stamp)();
  require(built_for == ASUP_PLUGIN_STAMP, "{}: was built for {}, and this is {}: build it again",
          path, built_for, ASUP_PLUGIN_STAMP);
  return function;
}

}  // namespace asup::data
