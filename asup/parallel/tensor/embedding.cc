#include "asup/parallel/tensor/embedding.h"

#include "asup/base/error.h"
#include "asup/parallel/pipeline/layers.h"
#include "asup/parallel/tensor/regions.h"

namespace asup::parallel {

using torch::Tensor;

ParallelEmbeddingImpl::ParallelEmbeddingImpl(std::int64_t num_embeddings,
                                             std::int64_t embedding_dim, TensorGroup group)
    : group_(std::move(group)), rows_(num_embeddings) {
  require(num_embeddings >= group_.size(),
          "an embedding of {} rows cannot be cut over {} ranks: make the group smaller",
          num_embeddings, group_.size());
  const std::int64_t own = part_of(rows_, group_.rank(), group_.size()).size;
  weight = register_parameter("weight", torch::empty({own, embedding_dim}));
  initialise([](Tensor whole) { torch::nn::init::normal_(whole); });
}

void ParallelEmbeddingImpl::initialise(const std::function<void(Tensor whole)>& fill) {
  torch::NoGradGuard no_grad;
  const Tensor whole = torch::empty({rows_, weight.size(1)}, weight.options());
  fill(whole);
  weight.copy_(part_of(whole, cuts().at("weight"), group_.rank(), group_.size()));
}

std::map<std::string, TensorCut> ParallelEmbeddingImpl::cuts() const {
  return {{"weight", TensorCut{0, rows_}}};
}

// What other ranks have is zero here.
Tensor ParallelEmbeddingImpl::forward(const Tensor& indices) {
  if (indices.numel() > 0) {
    const auto least = indices.min().item<std::int64_t>(),
               most = indices.max().item<std::int64_t>();
    require(least >= 0 && most < rows_, "an embedding of {} rows has no row {}", rows_,
            least < 0 ? least : most);
  }
  const IndexRange range = part_of(rows_, group_.rank(), group_.size());
  const Tensor local = indices - range.begin;
  const Tensor elsewhere = local.lt(0).logical_or(local.ge(range.size));
  const Tensor own = parallel::embedding(weight, local.masked_fill(elsewhere, 0));
  return reduce_from_region(own.masked_fill(elsewhere.unsqueeze(-1), 0), group_);
}

void ParallelEmbeddingImpl::pretty_print(std::ostream& stream) const {
  stream << "asup::parallel::ParallelEmbedding(" << rows_ << ", " << weight.size(1) << ", rank "
         << group_.rank() << " of " << group_.size() << ")";
}

}  // namespace asup::parallel
