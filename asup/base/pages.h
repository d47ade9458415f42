// Pages of memory that processes share. Safe from any thread.
#pragma once

#include <cstddef>
#include <span>

namespace asup {

// Gives the whole pages in it back to the system, for all processes: they are zeros when they are
// touched next. Where the system cannot do that, they stay as they are. needs: shared memory, which
// nobody uses meanwhile
void give_pages_back(std::span<std::byte> memory);

}  // namespace asup
