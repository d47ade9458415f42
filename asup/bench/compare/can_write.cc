#include "asup/bench/compare/can_write.h"

#include <unistd.h>

#include <filesystem>

#include "asup/base/error.h"

namespace asup::bench {

void check_can_write(const std::string& flag, const std::string& file) {
  if (file.empty()) return;
  const std::string folder = std::filesystem::absolute(file).parent_path();
  require(!std::filesystem::is_directory(file) && ::access(folder.c_str(), W_OK | X_OK) == 0,
          "{} {}: no file can be written there; name one in a folder that is there", flag, file);
}

}  // namespace asup::bench
