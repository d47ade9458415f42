// A copy whose writes go around the caches where the architecture has such stores, and is memcpy
// elsewhere. Safe from any thread on memory of its own.
#pragma once

#include <cstddef>

namespace asup::kernels {

void stream_copy(std::byte* dst, const std::byte* src, std::size_t bytes);

}  // namespace asup::kernels
