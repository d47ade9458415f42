// The memory of a model's device whose copy on the host is the memory of buckets.
//
// Gradients lie here; a bucket of them goes to the host, is exchanged, and comes back, on two
// streams of its own beside the one that computes:
//
//   computing   … gradient ┐ gradient … ends ─ waits ┐ optimizer
//   out                    └ copy, event             │
//   host                        event ─ all-reduce ┐ │
//   in                                             └ copy, event
//
// The host alone waits for the event of a bucket, and the computing stream for the copies back: the
// device is never waited for as a whole. Used from one thread at a time.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <vector>

#include "asup/collective/communicator.h"

namespace asup::sync {

class BucketMirror {
 public:
  BucketMirror(std::shared_ptr<SharedMemory> host, const torch::Device& device,
               std::size_t buckets);
  ~BucketMirror();  // when no copy is under way
  BucketMirror(const BucketMirror&) = delete;
  BucketMirror& operator=(const BucketMirror&) = delete;

  // As large as the host's, and zeroed. Holding it keeps it alive.
  std::byte* data() const;
  std::shared_ptr<void> memory() const { return memory_; }

  // What the current stream was given, and those that were current when this was called before, is
  // done before what the current stream gets from now on.
  void follow_stream();

  // Bytes of a bucket go to the host, when the current stream has done what it was given.
  void to_host(std::size_t bucket, std::size_t begin, std::size_t bytes);
  // Before it: the device finds the largest magnitude among these elements, NaN where one is,
  // beside what it computes; has_come() is for that too. Nobody waits for it apart.
  void find_peak(std::size_t bucket, std::size_t begin, std::size_t bytes, torch::ScalarType type);
  double peak(std::size_t bucket) const;
  bool has_come(std::size_t bucket) const;
  void wait_for(std::size_t bucket) const;

  // Back, at once: nothing on the device may be using them. What the current stream gets from now
  // on is done with them. The host's stay as they are until the next to_host().
  void to_device(std::size_t begin, std::size_t bytes);

  // Whether these bytes are others on the device, when the current stream has done what it was
  // given, than on the host.
  bool differs(std::size_t begin, std::size_t bytes) const;

 private:
  struct Streams;

  const std::shared_ptr<SharedMemory> host_;
  const std::shared_ptr<void> locked_;  // its pages
  torch::Tensor on_host_, on_device_;   // bytes
  torch::Tensor peaks_;                 // by bucket, on the host
  std::shared_ptr<void> memory_;
  std::unique_ptr<Streams> streams_;  // none for the CPU, whose copies are done when they return
};

}  // namespace asup::sync
