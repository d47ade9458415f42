// Where a process's memory lies, as the kernel tells.
#pragma once

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

namespace asup::testing {

// Whether it is of a file that has no name (any more).
inline bool lies_in_file(const void* data) {
  std::ifstream maps("/proc/self/maps");
  const auto place = reinterpret_cast<std::uintptr_t>(data);
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::uintptr_t begin = 0, end = 0;
    char dash = 0;
    words >> std::hex >> begin >> dash >> end;
    if (place >= begin && place < end) return line.find("(deleted)") != std::string::npos;
  }
  return false;
}

}  // namespace asup::testing
