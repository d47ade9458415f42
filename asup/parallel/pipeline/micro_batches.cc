#include "asup/parallel/pipeline/micro_batches.h"

#include "asup/base/error.h"

namespace asup::parallel {

void require_divisible(const torch::Tensor& batch, int micro_batches) {
  require(batch.dim() > 0 && batch.size(0) > 0 && batch.size(0) % micro_batches == 0,
          "a batch of {} samples cannot be cut into {} micro-batches of one size: give a multiple "
          "of {}, or other micro-batches",
          batch.dim() > 0 ? batch.size(0) : 0, micro_batches, micro_batches);
}

std::vector<torch::Tensor> micro_batches_of(const torch::Tensor& batch, int micro_batches, int rank,
                                            const char* what, const char* stage) {
  require(batch.defined(), "rank {} has the {} stage, and needs the {} of a batch", rank, stage,
          what);
  require_divisible(batch, micro_batches);
  return batch.chunk(micro_batches);
}

}  // namespace asup::parallel
