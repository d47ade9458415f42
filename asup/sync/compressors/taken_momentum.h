// The momentum of an SGD that is on the other side of an exchange (sparse_gradients.h,
// coded_momenta.h): there it moves what is sent, and the optimizer steps without it.
//
// Weight decay is not sent. It goes through the momentum where that is the optimizer's, and is
// 1/(1 − m) times as strong in the end: as strong it is here, at once.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "asup/sync/compressors/compressor.h"

namespace asup::sync {

struct TakenMomentum {
  double momentum = 0;
  bool nesterov = false;
  bool operator==(const TakenMomentum&) const = default;
};

// Throws BadInput where the optimizer is not torch's SGD, its groups have different momenta, or one
// of 1 and more, or it has dampening. `taker`, for the message: "compress dgc".
TakenMomentum momentum_to_take(const torch::optim::Optimizer& optimizer, std::string_view taker);
// Whether there is one, and it can be taken.
bool has_momentum_to_take(const torch::optim::Optimizer& optimizer);

// What a compressor that takes it keeps: first what has not travelled, which those who keep sums of
// gradients must not take for theirs, then the momentum.
std::vector<std::string> kept_with_momentum();

// Where gradients are clipped then, before they have met those of other ranks: each rank's part of
// a tensor's average, its gradient by their number, is scaled down to the norm clip_norm/√ranks.
// That of the average is clip_norm then, or so, where ranks know nothing of each other's.
void clip_parts(const Compressor::Bucket& bucket, double clip_norm, int ranks);

// Throws BadInput where the bucket adds to another of the same step, and is no gradient.
void require_one_backward(const Compressor::Bucket& bucket);

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
