// Batch normalization over the batches of all ranks together (N×C, N×C×L, N×C×H×W, N×C×D×H×W).
//
// In training, forward and backward make one small all-reduce each (Ioffe & Szegedy 2015, with the
// sums of their equations taken over all ranks; ranks' batches may differ in size). In evaluation
// it is torch's BatchNorm, and so are its options and the names of its parameters and buffers.
//
// Its calls run on the thread that trains, beside those of the replica's buckets: it needs a
// communicator of its own, which all layers of a model share. Every rank must run the same layers
// forward and backward in the same order.
//
//   std::shared_ptr<asup::Communicator> statistics = asup::make_communicator(job,
//   asup::Strategy()); asup::SyncBatchNorm norm(asup::SyncBatchNormOptions(64,
//   statistics).eps(1e-3));
#pragma once

#include <torch/torch.h>

#include <memory>
#include <optional>

#include "asup/collective/communicator.h"

namespace asup {

struct SyncBatchNormOptions {
  SyncBatchNormOptions(std::int64_t num_features, std::shared_ptr<Communicator> communicator)
      : num_features_(num_features), communicator_(std::move(communicator)) {}

  TORCH_ARG(std::int64_t, num_features);
  TORCH_ARG(double, eps) = 1e-5;
  TORCH_ARG(std::optional<double>, momentum) = 0.1;  // none: the average of all batches so far
  TORCH_ARG(bool, affine) = true;
  TORCH_ARG(bool, track_running_stats) = true;
  TORCH_ARG(std::shared_ptr<Communicator>, communicator);
};

class SyncBatchNormImpl
    : public torch::nn::NormImplBase<0, SyncBatchNormImpl, SyncBatchNormOptions> {
 public:
  explicit SyncBatchNormImpl(const SyncBatchNormOptions& options);

  // Throws JobFailed when a peer was lost or late.
  torch::Tensor forward(const torch::Tensor& input);

  void pretty_print(std::ostream& stream) const override;

 protected:
  void _check_input_dim(const torch::Tensor& input) override;

 private:
  void update_running_statistics(const torch::Tensor& mean, const torch::Tensor& variance,
                                 double count);
};

TORCH_MODULE(SyncBatchNorm);

}  // namespace asup
