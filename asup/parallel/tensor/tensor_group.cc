#include "asup/parallel/tensor/tensor_group.h"

#include "asup/base/clock.h"
#include "asup/base/error.h"
#include "asup/parallel/tensor_cut.h"
#include "asup/tensors/tensors.h"

namespace asup::parallel {
namespace {

using torch::Tensor;

// What ranks add up, in its place.
Buffer summed(const Tensor& tensor) {
  require(tensor.is_floating_point(),
          "tensor-parallel layers compute with floating points, not with {}",
          c10::toString(tensor.scalar_type()));
  require(tensor.is_cpu(), "tensor-parallel layers compute on the CPU, and got a tensor on {}",
          tensor.device().str());
  check(tensor.is_contiguous(), "ranks add up memory without holes");
  return buffer_of(tensor);
}

}  // namespace

struct TensorGroup::State {
  std::shared_ptr<Communicator> communicator;
  std::shared_ptr<SharedMemory> memory;  // goes before what it is allocated from
  double wait_seconds = 0;

  void waited_for(const Outcome& outcome, Clock::time_point since, const char* what) {
    wait_seconds += seconds_since(since);
    outcome.or_throw(what);
  }
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
double TensorGroup::wait_seconds() const { return state_->wait_seconds; }

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
  const auto begin = Clock::now();
  state_->waited_for(communicator().all_reduce(summed(tensor), op), begin, what);
}

Work TensorGroup::start_all_reduce(const Tensor& tensor) const {
  return communicator().start_all_reduce(summed(tensor));
}

void TensorGroup::wait(Work& work, const char* what) const {
  const auto begin = Clock::now();
  state_->waited_for(work.wait(), begin, what);
}

Tensor TensorGroup::all_gather_last(const Tensor& part, std::int64_t whole,
                                    const char* what) const {
  const Tensor own = part.contiguous();
  const std::int64_t rows = own.numel() / std::max<std::int64_t>(own.size(-1), 1);
  std::vector<std::size_t> counts;
  for (int r = 0; r < size(); ++r)
    counts.push_back(static_cast<std::size_t>(rows * part_of(whole, r, size()).size));
  const Tensor flat = torch::empty({rows * whole}, own.options());
  const auto begin = Clock::now();
  state_->waited_for(communicator().all_gather(summed(own), summed(flat), counts), begin, what);
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
