#include "asup/tensors/tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "asup/base/error.h"

namespace asup {
namespace {

std::string type_name(const torch::Tensor& tensor) {
  const auto dtype = dtype_of(tensor);
  return dtype ? std::string(name_of(*dtype)) : c10::toString(tensor.scalar_type());
}

}  // namespace

std::optional<Dtype> dtype_of(const torch::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case torch::kFloat32:
      return Dtype::f32;
    case torch::kFloat64:
      return Dtype::f64;
    case torch::kFloat16:
      return Dtype::f16;
    case torch::kBFloat16:
      return Dtype::bf16;
    case torch::kInt8:
      return Dtype::i8;
    case torch::kUInt8:
      return Dtype::u8;
    case torch::kInt32:
      return Dtype::i32;
    case torch::kInt64:
      return Dtype::i64;
    default:
      return std::nullopt;
  }
}

torch::ScalarType scalar_type_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32:
      return torch::kFloat32;
    case Dtype::f64:
      return torch::kFloat64;
    case Dtype::f16:
      return torch::kFloat16;
    case Dtype::bf16:
      return torch::kBFloat16;
    case Dtype::i8:
      return torch::kInt8;
    case Dtype::u8:
      return torch::kUInt8;
    case Dtype::i32:
      return torch::kInt32;
    case Dtype::i64:
      return torch::kInt64;
  }
  throw Error("an unknown element type");
}

Buffer bytes_of(const torch::Tensor& tensor) {
  check(tensor.is_cpu() && tensor.is_non_overlapping_and_dense(),
        "a tensor of {} on {} is not one piece of this process's memory", describe(tensor),
        tensor.device().str());
  return {tensor.data_ptr(), tensor.nbytes(), Dtype::u8};
}

Buffer buffer_of(const torch::Tensor& tensor) {
  const auto dtype = dtype_of(tensor);
  check(dtype.has_value(), "no reduction knows {}", describe(tensor));
  return {bytes_of(tensor).data, static_cast<std::size_t>(tensor.numel()), *dtype};
}

std::string describe(const torch::Tensor& tensor) {
  const std::string shape =
      tensor.dim() == 0 ? "scalar" : fmt::format("{}", fmt::join(tensor.sizes(), "×"));
  if (tensor.layout() != torch::kStrided)
    return fmt::format("{} {}, sparse", shape, type_name(tensor));
  if (tensor.is_contiguous()) return fmt::format("{} {}", shape, type_name(tensor));
  return fmt::format("{} {} with strides {}", shape, type_name(tensor),
                     fmt::join(tensor.strides(), ","));
}

}  // namespace asup
