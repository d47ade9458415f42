#include "asup/sync/compressors/taken_momentum.h"

#include <cmath>
#include <typeinfo>

#include "asup/base/error.h"
#include "asup/kernels/momentum.h"
#include "asup/kernels/update.h"

namespace asup::sync {
namespace {

using torch::optim::Optimizer;
using torch::optim::SGDOptions;

SGDOptions& options_of(torch::optim::OptimizerParamGroup& group) {
  return static_cast<SGDOptions&>(group.options());
}

}  // namespace

TakenMomentum momentum_to_take(const Optimizer& optimizer, std::string_view taker) {
  require(typeid(optimizer) == typeid(torch::optim::SGD),
          "{} takes the momentum of SGD over, and this optimizer is another: take optimizer sgd, "
          "or compress topk, which leaves the optimizer as it is",
          taker);
  TakenMomentum taken;
  bool is_first = true;
  for (const auto& group : optimizer.param_groups()) {
    const auto& options = static_cast<const SGDOptions&>(group.options());
    require(options.momentum() < 1, "{} needs a momentum below 1, and it is {}", taker,
            options.momentum());
    require(options.dampening() == 0, "{} has no dampening of the momentum, which is {}", taker,
            options.dampening());
    const TakenMomentum here{options.momentum(), options.nesterov()};
    require(is_first || here == taken,
            "{} has one momentum for all parameters, and groups of the optimizer have {} and {}",
            taker, taken.momentum, here.momentum);
    taken = here;
    is_first = false;
  }
  return taken;
}

bool has_momentum_to_take(const Optimizer& optimizer) {
  try {
    return momentum_to_take(optimizer, "").momentum > 0;
  } catch (const BadInput&) {
    return false;
  }
}

std::vector<std::string> kept_with_momentum() { return {"sum of momenta of ", "momentum of "}; }

void clip_parts(const Compressor::Bucket& bucket, double clip_norm, int ranks) {
  const double most = clip_norm * std::sqrt(static_cast<double>(ranks)) * bucket.unit;
  for (const layout::Layout::Tensor& tensor : bucket.tensors) {
    const std::span numbers(static_cast<float*>(bucket.gradients.data) + tensor.range.begin,
                            static_cast<std::size_t>(tensor.range.size()));
    const double norm = std::sqrt(kernels::sum_of_squares(numbers.data(), numbers.size()));
    if (!std::isfinite(norm) || norm <= most) continue;
    kernels::scale(numbers.data(), static_cast<float>(most / norm), numbers.size());
  }
}

void require_one_backward(const Compressor::Bucket& bucket) {
  require(!bucket.adds,
          "compress has taken SGD's momentum over, as dgc and onebit do, of which there is one a "
          "step, and this step has a second backward(): put all but the last into a NoSync scope");
}

WithoutMomentum::WithoutMomentum(Optimizer& optimizer) : optimizer_(optimizer) {
  for (auto& group : optimizer.param_groups()) options_.push_back(options_of(group));
  for (auto& group : optimizer.param_groups()) {
    SGDOptions& options = options_of(group);
    options.weight_decay(options.weight_decay() / (1 - options.momentum()));
    options.momentum(0).nesterov(false);
  }
}

WithoutMomentum::~WithoutMomentum() {
  for (std::size_t i = 0; i < options_.size(); ++i)
    options_of(optimizer_.param_groups()[i]) = options_[i];
}

}  // namespace asup::sync
