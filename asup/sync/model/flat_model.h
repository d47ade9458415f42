// A model's parameters one after the other, in memory that links reach: what travels when models
// are exchanged. It is a copy, so that an exchange that fails leaves the model as it was.
//
// Elements are f32, or f64 where a parameter is; 16-bit parameters travel as f32, so that they are
// rounded once. It is in the host's memory, also for a model on a GPU: copies have ended when
// take() and give() return. Used from the thread that trains.
#pragma once

#include <torch/torch.h>

#include <span>
#include <vector>

#include "asup/collective/communicator.h"
#include "asup/layout/layout.h"
#include "asup/sync/model/tensors.h"

namespace asup::sync {

// A tensor of zeros of one dimension in memory that links reach. Collective.
torch::Tensor tensor_for_links(Communicator& communicator, std::int64_t elements,
                               torch::ScalarType type);

class FlatModel {
 public:
  // Collective. Throws BadInput for a parameter that has gaps in memory.
  FlatModel(Communicator& communicator, std::vector<NamedTensor> parameters);

  // All of it, one dimension.
  const torch::Tensor& all() const { return flat_; }
  std::int64_t elements() const { return flat_.numel(); }
  // The parameters themselves.
  const std::vector<torch::Tensor>& parameters() const { return parameters_; }

  // Copies from tensors that are as the parameters are: themselves, or an optimizer's state of
  // them. Ones that are undefined count as zeros, and are left alone by give().
  void take(std::span<const torch::Tensor> tensors);
  void give(std::span<const torch::Tensor> tensors) const;

  // The same for some elements of the parameters.
  void take(std::int64_t begin, std::int64_t end);
  void give(std::int64_t begin, std::int64_t end) const;

  // The square of the distance of the parameters to what is here.
  double squared_distance() const;

 private:
  torch::Device device() const { return parameters_.front().device(); }
  template <typename Visit>
  void for_each_piece(std::int64_t begin, std::int64_t end, const Visit& visit) const;

  std::vector<torch::Tensor> parameters_;
  layout::Layout layout_;
  torch::Tensor flat_;
  std::shared_ptr<void> locked_;       // its pages
  std::vector<torch::Tensor> places_;  // views of it, each with its parameter's shape and strides
};

}  // namespace asup::sync
