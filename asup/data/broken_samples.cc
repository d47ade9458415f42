#include "asup/data/broken_samples.h"

#include "asup/base/log.h"

namespace asup::data {
namespace {
constexpr std::size_t kNamed = 20;
}

void BrokenSamples::add(std::size_t index, const std::string& name, const std::string& why) {
  std::lock_guard lock(mutex_);
  if (!indices_.insert(static_cast<std::int64_t>(index)).second || indices_.size() > kNamed) return;
  log().warn("{} {}; another image takes its place", name, why);
  if (indices_.size() == kNamed) log().warn("further broken images are counted, not named");
}

std::vector<std::int64_t> BrokenSamples::all() const {
  std::lock_guard lock(mutex_);
  return {indices_.begin(), indices_.end()};
}

}  // namespace asup::data
