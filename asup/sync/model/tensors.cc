#include "asup/sync/model/tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <unordered_set>

#include "asup/base/error.h"

namespace asup::sync {
namespace {

std::vector<NamedTensor> each_once(const torch::OrderedDict<std::string, torch::Tensor>& tensors) {
  std::vector<NamedTensor> result;
  std::unordered_set<const void*> seen;
  for (const auto& item : tensors)
    if (seen.insert(item.value().unsafeGetTensorImpl()).second)
      result.push_back({item.key(), item.value()});
  return result;
}

std::string type_name(const torch::Tensor& tensor) {
  const auto dtype = dtype_of(tensor);
  return dtype ? std::string(name_of(*dtype)) : c10::toString(tensor.scalar_type());
}

}  // namespace

std::vector<NamedTensor> parameters_of(const torch::nn::Module& module) {
  return each_once(module.named_parameters());
}

std::vector<NamedTensor> buffers_of(const torch::nn::Module& module) {
  return each_once(module.named_buffers());
}

std::vector<NamedTensor> copies_of(std::vector<NamedTensor> tensors) {
  for (auto& [name, tensor] : tensors) tensor = tensor.detach().clone();
  return tensors;
}

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

std::vector<layout::TensorShape> shapes_of(const std::vector<NamedTensor>& tensors) {
  std::vector<layout::TensorShape> shapes;
  for (const auto& [name, tensor] : tensors)
    shapes.push_back({name, static_cast<std::uint64_t>(tensor.numel()), *dtype_of(tensor)});
  return shapes;
}

namespace {

torch::Tensor view_on(const torch::Device& device, const torch::Tensor& like, void* data,
                      std::shared_ptr<void> memory) {
  const auto options = torch::dtype(like.scalar_type()).device(device);
  const auto keep = [memory = std::move(memory)](void*) {};
  return like.is_non_overlapping_and_dense()
             ? torch::from_blob(data, like.sizes(), like.strides(), keep, options)
             : torch::from_blob(data, like.sizes(), keep, options);
}

}  // namespace

torch::Tensor view_like(const torch::Tensor& like, void* data, std::shared_ptr<void> memory) {
  return view_on(like.device(), like, data, std::move(memory));
}

torch::Tensor host_view_like(const torch::Tensor& like, void* data, std::shared_ptr<void> memory) {
  return view_on(torch::kCPU, like, data, std::move(memory));
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

std::uint64_t total_bytes(const std::vector<NamedTensor>& tensors) {
  std::uint64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += tensor.nbytes();
  return bytes;
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

}  // namespace asup::sync
