// What numbers a model computes with. Parameters, gradients and the optimizer's state are f32 in
// any case. Values only; safe from any thread.
#pragma once

#include <torch/torch.h>

#include <string>
#include <string_view>

namespace asup {

enum class Precision {
  fp32,
  bf16,  // the range of f32 with 8 bits of mantissa
  fp16   // 11 bits of mantissa, and a range so small that the loss is scaled (GradScaler)
};

// "fp32", "bf16", "fp16": as in flags, run folders and checkpoints.
std::string_view name_of(Precision precision);
// Throws BadInput for any other name.
Precision precision_from(const std::string& name);

torch::ScalarType scalar_type_of(Precision precision);

}  // namespace asup
