// Memory in which autograd itself makes large gradients, so that links reach them where they are
// and nobody copies them.
//
// torch takes all CPU memory from one allocator of the process. While there is an arena, another is
// in front of it, which serves a request out of an arena when it comes in a backward, on the thread
// that made the arena, and is exactly as large as one of the arena's gradients (of at least 64 KB);
// all other requests go to the allocator that was there, which is back in its place when the last
// arena has gone. Blocks are used again in the next backward, which also saves the page faults of
// fresh memory. When an arena has no block left, the request is served as if it were not there.
//
// Made on the thread that trains. Memory may be given back on any thread.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <span>

#include "asup/collective/communicator.h"

namespace asup::sync {

class GradientArena {
 public:
  // Collective. `sizes`: bytes of each gradient. Address space is taken for twice as many, for
  // gradients that are added up and temporaries of the same size; what is not used costs nothing.
  // `keeps_pages`: blocks that are given back keep their memory, which makes the next use faster.
  GradientArena(Communicator& communicator, std::span<const std::size_t> sizes,
                bool keeps_pages = true);
  // Tensors that are left keep the memory; they must go before the communicator's job.
  ~GradientArena();
  GradientArena(const GradientArena&) = delete;
  GradientArena& operator=(const GradientArena&) = delete;

  bool holds(const torch::Tensor& tensor) const;

  class Blocks;

 private:
  std::shared_ptr<Blocks> blocks_;
  std::shared_ptr<const void> allocator_;  // is in front while this lives
};

}  // namespace asup::sync
