// Where a model is, and what of it must be copied so that links reach it.
//
// Collectives and servers work on the host's memory. A model on the CPU lies in that memory itself,
// and all here does nothing; of a model on a GPU, copies travel. Everything is by torch's interface
// for any device, so that there is nothing to compile for one. Safe from any thread.
#pragma once

#include <c10/core/Event.h>
#include <torch/torch.h>

#include <memory>
#include <optional>
#include <span>

namespace asup::sync {

// Whether what is on `device` travels as a copy.
bool travels_as_copy(const torch::Device& device);

// The tensor, where links reach it: itself, or a copy in the host's memory that is complete.
torch::Tensor on_host(const torch::Tensor& tensor);

// Returns when the device has done what this thread's current stream was given: copies from and to
// the host among it. Other streams are not waited for.
void wait_for_stream(const torch::Device& device);

// Copies tensor by tensor, one list on the host and the other on the device or there too; returns
// when that is done.
void copy_each(std::span<const torch::Tensor> to, std::span<const torch::Tensor> from);

// While what is returned lives, the GPU copies from and to this memory beside computing. Null, and
// copies are made through memory of the driver's, where there is no CUDA or it refuses.
std::shared_ptr<void> lock_pages(std::span<std::byte> memory, const torch::Device& device);

// A number of the device's that is read later: its copy is queued behind what the current stream
// was given, and value() waits for that alone. On the CPU it is there at once.
class FetchedNumber {
 public:
  explicit FetchedNumber(const torch::Tensor& number);

  double value() const;

 private:
  torch::Tensor number_;            // on the host
  std::optional<c10::Event> come_;  // none: it is there
};

// For tests without a GPU: while one lives, models on the CPU travel as copies as well.
class ForcedCopies {
 public:
  explicit ForcedCopies(bool force = true);
  ~ForcedCopies();
  ForcedCopies(const ForcedCopies&) = delete;
  ForcedCopies& operator=(const ForcedCopies&) = delete;

 private:
  const bool force_;
};

}  // namespace asup::sync
