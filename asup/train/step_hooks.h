// What an experiment has done around a worker's computation, such as making it slow on purpose
// (bench/injected_slowness.h). Called on the thread that trains.
#pragma once

#include <cstddef>

namespace asup::train {

class StepHooks {
 public:
  virtual ~StepHooks() = default;

  // Before forward and after backward of so many samples; `progress` is the share of the run that
  // is done, `waited` are the seconds of both in which this worker waited for others.
  virtual void before_batch(std::size_t /*samples*/, double /*progress*/) {}
  virtual void after_batch(std::size_t /*samples*/, double /*waited*/) {}
};

}  // namespace asup::train
