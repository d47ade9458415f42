// For what makes an optimizer's state: it lies where the thread wants it (OptimizerStateIn).
#pragma once

#include <memory>

namespace asup {

class TensorMemory;

// What is made while this is there is state.
class MakesOptimizerState {
 public:
  MakesOptimizerState();
  ~MakesOptimizerState();
  MakesOptimizerState(const MakesOptimizerState&) = delete;
  MakesOptimizerState& operator=(const MakesOptimizerState&) = delete;

 private:
  const std::shared_ptr<TensorMemory> before_;
};

}  // namespace asup
