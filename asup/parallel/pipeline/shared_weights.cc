#include "asup/parallel/pipeline/shared_weights.h"

#include <utility>

#include "asup/parallel/pipeline/messages.h"

namespace asup::parallel {

using torch::Tensor;

SharedWeights::SharedWeights(Communicator& communicator, const StageTensors& tensors)
    : communicator_(communicator) {
  for (const StageTensor& entry : tensors.all())
    if (entry.is_shared() && entry.is_on(communicator.rank()))
      shared_.push_back(
          {entry.tensor, entry.ranks, entry.is_parameter && entry.tensor.requires_grad()});
}

void SharedWeights::make_equal() {
  const torch::NoGradGuard no_grad;
  for (const Shared& each : shared_) {
    Tensor copy = each.tensor.detach().to(torch::kCPU).contiguous();
    const int first = each.ranks.front();
    if (communicator_.rank() != first) {
      communicator_.recv(bytes_of(copy), first).or_throw("making shared weights equal");
      each.tensor.detach().copy_(copy);
      continue;
    }
    for (const int rank : each.ranks)
      if (rank != first)
        communicator_.send(bytes_of(copy), rank).or_throw("making shared weights equal");
  }
}

void SharedWeights::begin_backward() {
  if (!std::exchange(are_sums_, false)) return;
  for (const Shared& each : shared_)
    if (each.learns && each.ranks.front() != communicator_.rank() && each.tensor.grad().defined())
      each.tensor.mutable_grad().zero_();
}

void SharedWeights::sum_gradients() {
  const torch::NoGradGuard no_grad;
  const int own = communicator_.rank();
  for (const Shared& each : shared_) {
    if (!each.learns) continue;
    Tensor& gradient = each.tensor.mutable_grad();
    if (!gradient.defined()) gradient = torch::zeros_like(each.tensor);
    const Tensor mine = gradient.to(torch::kCPU).contiguous();
    std::vector<Tensor> theirs;
    std::vector<Work> works;
    for (const int rank : each.ranks) {
      if (rank == own) {
        theirs.push_back(mine);
        continue;
      }
      theirs.push_back(torch::empty_like(mine));
      works.push_back(communicator_.start_recv(bytes_of(theirs.back()), rank));
      works.push_back(communicator_.start_send(bytes_of(mine), rank));
    }
    wait_for_all(works).or_throw("adding up the gradients of shared weights");
    Tensor sum = theirs.front().clone();
    for (std::size_t i = 1; i < theirs.size(); ++i) sum.add_(theirs[i]);
    gradient.copy_(sum);
  }
  are_sums_ = true;
}

}  // namespace asup::parallel
