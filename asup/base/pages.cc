#include "asup/base/pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace asup {

void give_pages_back(std::span<std::byte> memory) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
  const std::uintptr_t first = (begin + page - 1) / page * page;
  const std::uintptr_t last = (begin + memory.size()) / page * page;
  if (first < last)
    (void)madvise(reinterpret_cast<void*>(first), last - first, MADV_REMOVE);  // NOLINT
}

}  // namespace asup
