#include "asup/parallel/tensor/tensor_group.h"

#include "asup/base/error.h"
#include "asup/parallel/tensor/cut.h"

namespace asup::parallel {
namespace {

using torch::Tensor;

Dtype dtype_of(const Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case torch::kFloat32:
      return Dtype::f32;
    case torch::kFloat64:
      return Dtype::f64;
    case torch::kFloat16:
      return Dtype::f16;
    case torch::kBFloat16:
      return Dtype::bf16;
    default:
      throw BadInput(fmt::format("tensor-parallel layers compute with floating points, not with {}",
                                 c10::toString(tensor.scalar_type())));
  }
}

Buffer buffer_of(const Tensor& tensor) {
  require(tensor.is_cpu(), "tensor-parallel layers compute on the CPU, and got a tensor on {}",
          tensor.device().str());
  check(tensor.is_contiguous(), "ranks add up memory without holes");
  return {tensor.data_ptr(), static_cast<std::size_t>(tensor.numel()), dtype_of(tensor)};
}

}  // namespace

struct TensorGroup::State {
  std::shared_ptr<Communicator> communicator;
  std::shared_ptr<SharedMemory> memory;  // goes before what it is allocated from
};

TensorGroup::TensorGroup(std::shared_ptr<Communicator> communicator)
    : state_(std::make_shared<State>()) {
  require(communicator != nullptr,
          "a TensorGroup needs a communicator: make one for it, or split one");
  state_->communicator = std::move(communicator);
}

int TensorGroup::rank() const { return state_->communicator->rank(); }
int TensorGroup::size() const { return state_->communicator->size(); }
Communicator& TensorGroup::communicator() const { return *state_->communicator; }

// Shapes are the same on all ranks, and so memory grows on all of them at once.
Tensor TensorGroup::staging(torch::IntArrayRef shape, torch::ScalarType type) const {
  const auto bytes =
      static_cast<std::size_t>(c10::multiply_integers(shape)) * c10::elementSize(type);
  auto& memory = state_->memory;
  if (!memory || memory->bytes().size() < bytes) {
    memory.reset();
    memory = communicator().allocate(std::max<std::size_t>(bytes, 1));
  }
  return torch::from_blob(
      memory->bytes().data(), shape, [kept = memory](void*) {}, type);
}

void TensorGroup::all_reduce(const Tensor& tensor, const char* what, ReduceOp op) const {
  communicator().all_reduce(buffer_of(tensor), op).or_throw(what);
}

Work TensorGroup::start_all_reduce(const Tensor& tensor) const {
  return communicator().start_all_reduce(buffer_of(tensor));
}

Tensor TensorGroup::all_gather_last(const Tensor& part, std::int64_t whole,
                                    const char* what) const {
  const Tensor own = part.contiguous();
  const std::int64_t rows = own.numel() / std::max<std::int64_t>(own.size(-1), 1);
  std::vector<std::size_t> counts;
  for (int r = 0; r < size(); ++r)
    counts.push_back(static_cast<std::size_t>(rows * part_of(whole, r, size()).size));
  const Tensor flat = torch::empty({rows * whole}, own.options());
  communicator().all_gather(buffer_of(own), buffer_of(flat), counts).or_throw(what);
  std::vector<Tensor> parts;
  std::int64_t at = 0;
  for (int r = 0; r < size(); ++r) {
    std::vector<std::int64_t> shape = own.sizes().vec();
    shape.back() = part_of(whole, r, size()).size;
    parts.push_back(flat.narrow(0, at, rows * shape.back()).view(shape));
    at += rows * shape.back();
  }
  return torch::cat(parts, -1);
}

}  // namespace asup::parallel
