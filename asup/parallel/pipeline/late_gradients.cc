#include "asup/parallel/pipeline/late_gradients.h"

#include <algorithm>
#include <utility>

#include "asup/parallel/pipeline/messages.h"

namespace asup::parallel {

using torch::Tensor;

LateGradients::LateGradients(Communicator& all) : communicator_(all.split(0, all.rank())) {}

LateGradients::~LateGradients() {
  bool waits = false;
  for (const Shared& shared : shared_)
    for (const Work& work : shared.works) waits |= !work.done();
  if (!waits) return;
  communicator_->abandon();  // then nobody touches the memory any more
  for (Shared& shared : shared_)
    for (Work& work : shared.works) (void)work.wait();
}

void LateGradients::add(Tensor weight, std::vector<int> ranks) {
  shared_.push_back({std::move(weight), std::move(ranks)});
}

void LateGradients::exchange() {
  const torch::NoGradGuard no_grad;
  for (Shared& shared : shared_) {
    const Tensor gradient =
        shared.weight.grad().defined() ? shared.weight.grad() : torch::zeros_like(shared.weight);
    finish(shared);
    for (const int rank : shared.ranks)
      shared.under_way.push_back(rank == communicator_->rank()
                                     ? gradient.to(torch::kCPU).clone(at::MemoryFormat::Contiguous)
                                     : torch::empty(gradient.sizes(), gradient.scalar_type()));
    start(shared);
  }
}

void LateGradients::settle() {
  const torch::NoGradGuard no_grad;
  for (Shared& shared : shared_) finish(shared);
}

void LateGradients::start(Shared& shared) {
  const int own = communicator_->rank();
  const auto at = std::find(shared.ranks.begin(), shared.ranks.end(), own) - shared.ranks.begin();
  const Tensor& mine = shared.under_way[static_cast<std::size_t>(at)];
  for (std::size_t i = 0; i < shared.ranks.size(); ++i) {
    if (shared.ranks[i] == own) continue;
    shared.works.push_back(
        communicator_->start_recv(bytes_of(shared.under_way[i]), shared.ranks[i]));
    shared.works.push_back(communicator_->start_send(bytes_of(mine), shared.ranks[i]));
  }
}

// The weight's gradient becomes the sum of those under way, if any are.
void LateGradients::finish(Shared& shared) {
  std::vector<Work> works = std::exchange(shared.works, {});
  wait_for_all(works).or_throw("adding up gradients of shared weights");
  const std::vector<Tensor> all = std::exchange(shared.under_way, {});
  Tensor& gradient = shared.weight.mutable_grad();
  gradient = Tensor();
  if (all.empty()) return;
  Tensor sum = all.front().clone();
  for (std::size_t i = 1; i < all.size(); ++i) sum.add_(all[i]);
  gradient = sum.to(shared.weight.device());
}

}  // namespace asup::parallel
