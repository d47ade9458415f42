#include "asup/report/checkpoint_series.h"

#include <filesystem>
#include <map>

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/base/numbers.h"

namespace asup::report {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";

}  // namespace

std::string first_free_path(const std::string& stem) {
  for (int number = 1;; ++number) {
    std::string path = fmt::format("{}-{}", stem, number);
    if (!fs::exists(fs::symlink_status(path))) return path;
  }
}

std::string CheckpointSeries::path(std::int64_t step) const {
  return fmt::format("{}/{}{:08}", folder_, kPrefix, step);
}

std::vector<std::string> CheckpointSeries::list() const try {
  std::map<std::int64_t, std::string> by_step;
  if (!fs::is_directory(folder_)) return {};
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    if (const auto step = number_in<std::int64_t>(std::string_view(name).substr(kPrefix.size())))
      by_step.emplace(*step, entry.path().string());
  }
  std::vector<std::string> found;
  for (auto& [step, path] : by_step) found.push_back(std::move(path));
  return found;
} catch (const fs::filesystem_error& error) {
  throw BadInput(fmt::format("{}: cannot be read ({})", folder_, error.code().message()));
}

FoundCheckpoint CheckpointSeries::newest_whole(
    const std::function<void(const std::string& path)>& verify) const {
  FoundCheckpoint found;
  auto all = list();
  for (auto path = all.rbegin(); path != all.rend(); ++path) try {
      verify(*path);
      found.path = *path;
      return found;
    } catch (const BadInput& error) {
      found.newer.push_back({*path, error.what()});
    }
  return found;
}

// Points to it at any time, or to the one before.
void CheckpointSeries::link_best(const std::string& path) const {
  const std::string link = folder_ + "/best", made = fmt::format("{}/.{}best", folder_, kPrefix);
  std::error_code error;
  fs::remove(made, error);
  fs::create_directory_symlink(fs::path(path).filename(), made, error);
  if (!error) fs::rename(made, link, error);
  if (error) log().warn("{}: cannot be made a link to {} ({})", link, path, error.message());
}

void CheckpointSeries::keep(std::int64_t count, std::optional<std::int64_t> best) const {
  const std::string kept = best ? path(*best) : "";
  const auto found = list();
  const auto all = static_cast<std::int64_t>(found.size());
  std::error_code ignored;  // one too many does no harm
  for (std::int64_t i = 0; count > 0 && i + count < all; ++i)
    if (found[static_cast<std::size_t>(i)] != kept)
      fs::remove_all(found[static_cast<std::size_t>(i)], ignored);
  if (best && fs::exists(kept, ignored)) link_best(kept);
  for (const auto& entry : fs::directory_iterator(folder_, ignored))
    if (entry.path().filename().string().starts_with(fmt::format(".{}", kPrefix)))
      fs::remove_all(entry.path(), ignored);
}

void CheckpointSeries::set_aside(const std::string& path) const {
  std::string name = fmt::format("{}/corrupt-{}", folder_, fs::path(path).filename().string());
  if (fs::exists(name)) name = first_free_path(name);
  std::error_code error;
  fs::rename(path, name, error);
  check(!error, "{}: cannot be renamed to {} ({})", path, name, error.message());
}

}  // namespace asup::report
