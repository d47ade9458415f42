// While it lives, forward computes in fewer bits what can bear it: torch's autocast, for one kind
// of device. Matrix products and convolutions are in 16 bits, sums that need it stay in f32, and so
// do all parameters and their gradients.
//
//   torch::Tensor scores;
//   {
//     asup::Autocast autocast(torch::kCPU, asup::Precision::bf16);
//     scores = model->forward(batch);
//   }
//   torch::nn::functional::cross_entropy(scores.to(torch::kFloat), target).backward();
//
// Backward is outside of it: it computes each operation in what forward had. With fp32 it turns
// autocast off, and outside of another does nothing. Weights that were made shorter are kept for a
// second use, and forgotten where one of these begins or ends: where a part of forward is without
// gradients, give that part one of its own. For the thread that makes it, and the scope it is in.
#pragma once

#include "asup/precision/precision.h"

namespace asup {

class Autocast {
 public:
  Autocast(torch::DeviceType device, Precision precision);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  const torch::DeviceType device_;
  const bool was_on_;
  const torch::ScalarType type_before_;
};

}  // namespace asup
