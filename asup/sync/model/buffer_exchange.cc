#include "asup/sync/model/buffer_exchange.h"

#include <map>

#include "asup/base/error.h"

namespace asup::sync {
namespace {

using Tensors = std::vector<torch::Tensor>;

// Buffers of one type, end to end, on the host. Their exchange changes nothing until unpack().
torch::Tensor pack(const Tensors& buffers) {
  Tensors flat;
  for (const torch::Tensor& buffer : buffers) flat.push_back(buffer.flatten());
  return torch::cat(flat).cpu();  // a copy, also where they are on the CPU
}

void unpack(const torch::Tensor& packed, const Tensors& buffers) {
  const torch::Tensor there = packed.to(buffers.front().device());
  std::int64_t begin = 0;
  for (const torch::Tensor& buffer : buffers) {
    buffer.copy_(there.narrow(0, begin, buffer.numel()).view(buffer.sizes()));
    begin += buffer.numel();
  }
}

bool is_averaged(const torch::Tensor& buffer) {
  const auto dtype = dtype_of(buffer);
  return dtype && is_floating(*dtype);
}

void exchange(Communicator& communicator, std::span<const NamedTensor> buffers, bool average,
              int root) {
  torch::NoGradGuard no_grad;
  std::map<torch::ScalarType, Tensors> by_type;
  for (const NamedTensor& named : buffers)
    by_type[named.tensor.scalar_type()].push_back(named.tensor.detach());

  std::map<torch::ScalarType, torch::Tensor> results;
  for (const auto& [type, tensors] : by_type) {
    torch::Tensor packed = pack(tensors);
    if (average && is_averaged(packed) && packed.element_size() < 4)
      packed = packed.to(torch::kFloat32);  // so that it is rounded once
    results[type] = packed;
    const Outcome outcome = average && is_averaged(packed)
                                ? communicator.all_reduce(buffer_of(packed), ReduceOp::average)
                                : communicator.broadcast(bytes_of(packed), root);
    outcome.or_throw("exchanging the model's buffers");
  }
  for (const auto& [type, tensors] : by_type) unpack(results[type], tensors);
}

}  // namespace

void broadcast_packed(Communicator& communicator, std::span<const NamedTensor> buffers, int root) {
  exchange(communicator, buffers, false, root);
}

void average_packed(Communicator& communicator, std::span<const NamedTensor> buffers) {
  exchange(communicator, buffers, true, 0);
}

}  // namespace asup::sync
