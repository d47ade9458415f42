// Calls back before and after autograd adds a gradient to a parameter's grad().
//
// Callbacks come on the thread that runs backward: the caller's own for the CPU. What they throw
// comes out of backward(). Made and destroyed while no backward runs.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <vector>

#include "asup/sync/model/tensors.h"

namespace asup::sync {

class GradientHooks {
 public:
  using Callback = std::function<void(std::size_t parameter)>;

  // `before` runs while grad() is still untouched, `after` when the gradient has been added.
  GradientHooks(const std::vector<NamedTensor>& parameters, Callback before, Callback after);
  ~GradientHooks();
  // In a callback: which backward it is of, and `action` when that one has ended, before it
  // returns. What `action` throws comes out of backward(). Where backward itself fails, it is not
  // called.
  static int current_backward();
  static void when_backward_ends(std::function<void()> action);

  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

 private:
  // A tensor holds its accumulator weakly: hooks live as long as these pointers. Their type differs
  // between versions of torch.
  using Accumulator =
      decltype(torch::autograd::impl::grad_accumulator(std::declval<const torch::Tensor&>()));
  struct Hooked {
    Accumulator accumulator;
    const void* before;
    std::uintptr_t after;
  };

  Callback before_, after_;
  std::vector<Hooked> hooked_;
};

}  // namespace asup::sync
