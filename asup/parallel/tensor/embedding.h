// An embedding table of which each rank of a group has some rows: those of its part of the
// vocabulary. Its vectors are whole on each rank, by one all-reduce forward and none backward. On
// each rank used from the thread that runs forward; collective.
#pragma once

#include <torch/torch.h>

#include "asup/parallel/tensor/tensor_group.h"
#include "asup/parallel/tensor_cut.h"

namespace asup::parallel {

class ParallelEmbeddingImpl : public torch::nn::Module, public CutModule {
 public:
  // First weights are those of torch::nn::Embedding with the same seed. Throws BadInput for fewer
  // rows than ranks.
  ParallelEmbeddingImpl(std::int64_t num_embeddings, std::int64_t embedding_dim, TensorGroup group);

  // Indices of any shape in, … × embedding_dim out. Throws BadInput for an index that is in no
  // rank's part, JobFailed when a peer was lost or late.
  torch::Tensor forward(const torch::Tensor& indices);

  // First weights anew; every rank fills the same whole table.
  void initialise(const std::function<void(torch::Tensor whole)>& fill);
  std::map<std::string, TensorCut> cuts() const override;
  void pretty_print(std::ostream& stream) const override;

  torch::Tensor weight;  // this rank's rows

 private:
  const TensorGroup group_;
  const std::int64_t rows_;  // on all ranks
};
TORCH_MODULE(ParallelEmbedding);

}  // namespace asup::parallel
