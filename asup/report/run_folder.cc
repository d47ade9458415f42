#include "asup/report/run_folder.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "asup/base/error.h"

namespace asup::report {
namespace {

namespace fs = std::filesystem;

// Whoever wrote it may just have been killed, or be cut off and about to find that out.
constexpr Seconds kUntilFree{20};

bool is_run(const std::string& path) { return fs::is_regular_file(path + "/config.toml"); }

// Nothing but folders, and the lock: a run that could not even write its settings leaves them
// behind.
bool is_unused(const std::string& path) {
  const fs::recursive_directory_iterator entries(path);
  return std::all_of(begin(entries), end(entries), [](const fs::directory_entry& entry) {
    return entry.is_directory() || entry.path().filename() == ".lock";
  });
}

// The nearest folder above (or at) `path` that exists.
fs::path existing_part(const std::string& path) {
  fs::path part = fs::absolute(path).lexically_normal();
  if (!part.has_filename()) part = part.parent_path();
  while (!fs::exists(part) && part.has_relative_path()) part = part.parent_path();
  return part;
}

std::string without_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

// The last part of a path, without what a folder's name should not have.
std::string tame(const std::string& name) {
  std::string out = fs::path(without_slash(name)).filename().string();
  for (char& c : out) {
    const bool fine = std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_';
    if (!fine) c = '-';
  }
  return out;
}

}  // namespace

void RunFolder::check_is_run() const {
  require(is_run(path_), "{}: is not a run folder (it has no config.toml)", path_);
}

void RunFolder::check_free() const { RunLock::check_free(path_, kUntilFree); }

RunLock RunFolder::lock(const std::string& who) const {
  return RunLock::take(path_, who, kUntilFree);
}

void RunFolder::remove_leftovers() const {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(path_, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(".") && name.ends_with(".tmp")) fs::remove_all(entry.path(), ignored);
  }
}

void RunFolder::check_can_create() const try {
  const fs::path part = existing_part(path_);
  require(fs::is_directory(part), "out: {} is a file, so {} cannot be a folder", part.string(),
          path_);
  require(::access(part.c_str(), W_OK | X_OK) == 0, "out: {} cannot be made: {} may not be written",
          path_, part.string());
  require(!fs::exists(path_) || is_run(path_) || is_unused(path_),
          "out: {} holds something that is not a run of asup; choose another folder, or empty it",
          path_);
} catch (const fs::filesystem_error& error) {
  throw BadInput(fmt::format("out: {} cannot be used ({})", path_, error.code().message()));
}

std::optional<std::string> RunFolder::create() const try {
  check_can_create();
  std::optional<std::string> moved_to;
  if (is_run(path_)) {
    check_free();
    moved_to = first_free_path(without_slash(path_) + ".previous");
    fs::rename(without_slash(path_), *moved_to);
  }
  fs::create_directories(checkpoints());
  return moved_to;
} catch (const fs::filesystem_error& error) {
  throw BadInput(fmt::format("out: {} cannot be made ({})", path_, error.code().message()));
}

std::string default_run_folder(const std::string& model, const std::string& data,
                               const std::string& job) {
  const std::string unique =
      job.empty() ? fmt::format("{:%Y%m%d-%H%M%S}", fmt::localtime(std::time(nullptr))) : tame(job);
  return fmt::format("runs/{}-{}-{}", tame(model), tame(data), unique);
}

}  // namespace asup::report
