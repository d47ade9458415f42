// Tells, on the thread that made it, of the tensors that each of torch's operators is about to
// compute with, in forward and in backward.
//
// That is how layers are found without a word from the model: libtorch's modules have no hooks
// before forward, and whatever a program computes with its parameters, it does by operators. Made
// and destroyed on one thread, where operators cost some hundred nanoseconds more meanwhile.
#pragma once

#include <ATen/record_function.h>
#include <torch/torch.h>

#include <functional>

namespace asup::sync {

class OperandWatch {
 public:
  using Operands = c10::ArrayRef<c10::IValue>;

  class Listener {
   public:
    virtual ~Listener() = default;
    // The operator runs when this returns. `nested`: another one has called it, and may go on with
    // its own operands afterwards. Exceptions would not come out of the operator, and end here.
    virtual void before(Operands operands, bool nested) noexcept = 0;
  };

  explicit OperandWatch(Listener& listener);
  ~OperandWatch();
  OperandWatch(const OperandWatch&) = delete;
  OperandWatch& operator=(const OperandWatch&) = delete;

 private:
  Listener& listener_;
};

// Calls back with each tensor among an operator's operands, of lists as well.
void for_each_tensor(OperandWatch::Operands operands,
                     const std::function<void(const torch::Tensor&)>& use);

}  // namespace asup::sync
