#include "asup/sync/compressors/compressor.h"

#include <limits>

#include "asup/kernels/code.h"

namespace asup {

bool is_large_weight(const torch::Tensor& parameter) {
  return parameter.scalar_type() == torch::kFloat32 && parameter.dim() >= 2 &&
         parameter.numel() >= static_cast<std::int64_t>(kernels::kCodeBlock) &&
         parameter.numel() <= std::numeric_limits<std::uint32_t>::max();
}

}  // namespace asup
