// Copying raw memory.
// Safe from any thread on memory of its own.
#pragma once

#include <cstddef>

namespace asup::kernels {

// Like memcpy: memory need not be aligned and must not overlap. Copies that no cache would hold go
// around the caches, where the processor can; they are as visible to other threads as any other
// writes when it returns.
void copy(void* dst, const void* src, std::size_t bytes);

// A piece of a copy of `total` bytes, which goes around the caches where the whole would.
void copy_piece(void* dst, const void* src, std::size_t bytes, std::size_t total);

}  // namespace asup::kernels
