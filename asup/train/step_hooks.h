// What an experiment has done around a worker's computation, such as making it slow on purpose
// (bench/injected_slowness.h). Called on the thread that trains, and for gradients on the one that
// runs backward.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace asup::train {

// `waited` are the seconds since before_batch() in which this worker waited for others.
class StepHooks {
 public:
  virtual ~StepHooks() = default;

  // Before training: the elements of each parameter that has gradients. Whether this is to be told
  // of these.
  virtual bool watch_gradients(const std::vector<std::int64_t>& /*elements*/) { return false; }

  // Before forward and after backward of so many samples; `progress` is the share of the run that
  // is done.
  virtual void before_batch(std::size_t /*samples*/, double /*progress*/) {}
  virtual void after_batch(std::size_t /*samples*/, double /*waited*/) {}
  // Between forward and backward of a portion of the batch, of so many samples: one where gradients
  // are not accumulated.
  virtual void before_backward(std::size_t /*samples*/, double /*waited*/) {}
  // Before a gradient is added to its parameter's, and when it has been and may have left.
  virtual void before_gradient(std::size_t /*parameter*/, double /*waited*/) {}
  virtual void after_gradient(std::size_t /*parameter*/) {}
  // Whether a worker that has some of a model's layers tells of these: each time that it has gone
  // through one forward, or begins to backward, in training or to find out how long it takes.
  virtual bool watches_layers() const { return false; }
  virtual void in_layer(bool /*backward*/) {}
};

}  // namespace asup::train
