#include "asup/checkpoint/series.h"

#include <algorithm>
#include <filesystem>

#include "asup/base/error.h"
#include "asup/checkpoint/reader.h"

namespace asup::checkpoint {

namespace fs = std::filesystem;

std::string Series::path(std::int64_t step) const {
  return fmt::format("{}/step-{:08}", folder_, step);
}

std::vector<std::string> Series::list() const try {
  std::vector<std::string> found;
  if (!fs::is_directory(folder_)) return found;
  for (const auto& entry : fs::directory_iterator(folder_))
    if (entry.path().filename().string().starts_with("step-"))
      found.push_back(entry.path().string());
  std::sort(found.begin(), found.end());
  return found;
} catch (const fs::filesystem_error& error) {
  throw BadInput(fmt::format("{}: cannot be read ({})", folder_, error.code().message()));
}

Found Series::newest_whole() const {
  Found found;
  auto all = list();
  for (auto path = all.rbegin(); path != all.rend(); ++path) try {
      Folder(*path).verify();
      found.path = *path;
      return found;
    } catch (const BadInput& error) {
      found.newer.push_back({*path, error.what()});
    }
  return found;
}

void Series::keep(std::int64_t count) const {
  const auto found = list();
  const auto all = static_cast<std::int64_t>(found.size());
  std::error_code ignored;  // one too many does no harm
  for (std::int64_t i = 0; i + count < all; ++i)
    fs::remove_all(found[static_cast<std::size_t>(i)], ignored);
  for (const auto& entry : fs::directory_iterator(folder_, ignored))
    if (entry.path().filename().string().starts_with(".step-"))
      fs::remove_all(entry.path(), ignored);
}

}  // namespace asup::checkpoint
