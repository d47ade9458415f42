#include "asup/launch/lines.h"

#include <utility>

namespace asup::launch {
namespace {

constexpr std::size_t kLongestLine = 64 * 1024;

// What a terminal would show of the line in the end.
std::string shown(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  return std::string(line.substr(line.rfind('\r') + 1));  // npos + 1 is 0
}

}  // namespace

std::vector<std::string> Lines::feed(std::string_view bytes) {
  std::vector<std::string> lines;
  for (std::size_t end; (end = bytes.find('\n')) != bytes.npos; bytes.remove_prefix(end + 1))
    lines.push_back(shown(std::exchange(pending_, {}).append(bytes.substr(0, end))));
  pending_ += bytes;
  if (pending_.size() > kLongestLine) lines.push_back(shown(std::exchange(pending_, {})));
  return lines;
}

std::vector<std::string> Lines::finish() {
  if (pending_.empty()) return {};
  return {shown(std::exchange(pending_, {}))};
}

}  // namespace asup::launch
