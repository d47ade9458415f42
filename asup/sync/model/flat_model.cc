#include "asup/sync/model/flat_model.h"

#include <algorithm>

#include "asup/base/error.h"
#include "asup/sync/model/device.h"

namespace asup::sync {
namespace {

Dtype widest(const std::vector<layout::TensorShape>& shapes) {
  const bool doubles = std::any_of(shapes.begin(), shapes.end(),
                                   [](const auto& shape) { return shape.dtype == Dtype::f64; });
  return doubles ? Dtype::f64 : Dtype::f32;
}

// The elements of a tensor without gaps, as they lie in memory.
torch::Tensor in_memory_order(const torch::Tensor& tensor) {
  return tensor.detach().as_strided({tensor.numel()}, {1}, tensor.storage_offset());
}

}  // namespace

torch::Tensor tensor_for_links(Communicator& communicator, std::int64_t elements,
                               torch::ScalarType type) {
  std::shared_ptr<SharedMemory> memory =
      communicator.allocate(static_cast<std::size_t>(elements) * torch::elementSize(type));
  return torch::from_blob(
      memory->bytes().data(), {elements}, [memory](void*) {}, type);
}

FlatModel::FlatModel(Communicator& communicator, std::vector<NamedTensor> parameters) {
  for (const auto& [name, tensor] : parameters) {
    require(tensor.is_non_overlapping_and_dense(),
            "parameter {} ({}) has gaps in memory, or elements that share their place: make it "
            "contiguous",
            name, describe(tensor));
    parameters_.push_back(tensor);
  }
  const auto shapes = shapes_of(parameters);
  layout_ = layout::packed(shapes, widest(shapes));
  flat_ = tensor_for_links(communicator, static_cast<std::int64_t>(layout_.elements),
                           scalar_type_of(layout_.dtype));
  const Buffer memory = buffer_of(flat_);
  locked_ = lock_pages({static_cast<std::byte*>(memory.data), memory.bytes()}, device());
  for (const auto& [index, name, range] : layout_.tensors)
    places_.push_back(
        flat_.as_strided(parameters_[index].sizes(), parameters_[index].strides(),
                         flat_.storage_offset() + static_cast<std::int64_t>(range.begin)));
}

void FlatModel::take(std::span<const torch::Tensor> tensors) {
  torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < places_.size(); ++i)
    tensors[i].defined() ? places_[i].copy_(tensors[i], /*non_blocking=*/true) : places_[i].zero_();
  wait_for_stream(device());
}

void FlatModel::give(std::span<const torch::Tensor> tensors) const {
  torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < places_.size(); ++i)
    if (tensors[i].defined()) tensors[i].detach().copy_(places_[i], /*non_blocking=*/true);
  wait_for_stream(device());
}

// Calls visit(elements of a parameter, the same elements here).
template <typename Visit>
void FlatModel::for_each_piece(std::int64_t begin, std::int64_t end, const Visit& visit) const {
  torch::NoGradGuard no_grad;
  const layout::Range range{static_cast<std::uint64_t>(begin), static_cast<std::uint64_t>(end)};
  for (const layout::Part& part : layout::parts_in(layout_, range)) {
    const auto count = static_cast<std::int64_t>(part.range.size());
    visit(in_memory_order(parameters_[part.tensor])
              .narrow(0, static_cast<std::int64_t>(part.offset), count),
          flat_.narrow(0, static_cast<std::int64_t>(part.range.begin), count));
  }
}

void FlatModel::take(std::int64_t begin, std::int64_t end) {
  for_each_piece(begin, end, [](const torch::Tensor& parameter, const torch::Tensor& here) {
    here.copy_(parameter, /*non_blocking=*/true);
  });
  wait_for_stream(device());
}

void FlatModel::give(std::int64_t begin, std::int64_t end) const {
  for_each_piece(begin, end, [](const torch::Tensor& parameter, const torch::Tensor& here) {
    parameter.copy_(here, /*non_blocking=*/true);
  });
  wait_for_stream(device());
}

double FlatModel::squared_distance() const {
  double sum = 0;
  for_each_piece(0, elements(), [&](const torch::Tensor& parameter, const torch::Tensor& here) {
    const double distance = (here - parameter.to(here.device())).norm().item<double>();
    sum += distance * distance;
  });
  return sum;
}

}  // namespace asup::sync
