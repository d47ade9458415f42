#include "asup/sync/model/tensors.h"

#include <unordered_set>

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

std::uint64_t total_bytes(const std::vector<NamedTensor>& tensors) {
  std::uint64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += tensor.nbytes();
  return bytes;
}

}  // namespace asup::sync
