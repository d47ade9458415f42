// The momentum of an SGD that is on the other side of an exchange (sparse_gradients.h): there it
// moves what is sent, and the optimizer steps without it.
//
// Weight decay is not sent. It goes through the momentum where that is the optimizer's, and is
// 1/(1 − m) times as strong in the end: as strong it is here, at once.
#pragma once

#include <torch/torch.h>

namespace asup::sync {

struct TakenMomentum {
  double momentum = 0;
  bool nesterov = false;
  bool operator==(const TakenMomentum&) const = default;
};

// Throws BadInput where the optimizer is not torch's SGD, its groups have different momenta, or one
// of 1 and more, or it has dampening.
TakenMomentum momentum_to_take(const torch::optim::Optimizer& optimizer);

// While this lives, the optimizer has no momentum.
class WithoutMomentum {
 public:
  // needs: momentum_to_take()
  explicit WithoutMomentum(torch::optim::Optimizer& optimizer);
  ~WithoutMomentum();
  WithoutMomentum(const WithoutMomentum&) = delete;
  WithoutMomentum& operator=(const WithoutMomentum&) = delete;

 private:
  torch::optim::Optimizer& optimizer_;
  std::vector<torch::optim::SGDOptions> options_;  // of its groups, as they were
};

}  // namespace asup::sync
