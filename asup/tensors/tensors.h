// Tensors as the core sees them: a type of element, and a piece of this process's memory.
// Values only; safe from any thread as far as the tensors are.
#pragma once

#include <torch/types.h>

#include <optional>
#include <string>

#include "asup/base/buffer.h"

namespace asup {

// None for types that no reduction knows (complex, bool, 8-bit floats).
std::optional<Dtype> dtype_of(const torch::Tensor& tensor);

torch::ScalarType scalar_type_of(Dtype dtype);

// The memory of a tensor without holes. Needs: is_non_overlapping_and_dense(), on the CPU.
Buffer buffer_of(const torch::Tensor& tensor);
// The same as bytes, for what is copied and not reduced.
Buffer bytes_of(const torch::Tensor& tensor);

// "64×3×7×7 f32": shape, type, and strides where they are not the usual ones.
std::string describe(const torch::Tensor& tensor);

}  // namespace asup
