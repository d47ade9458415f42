#include "asup/distribute/step_watch.h"

#include <algorithm>
#include <cstring>

#include "asup/base/error.h"

namespace asup {
namespace {

constexpr std::int64_t kElements = 16;  // of each parameter, far apart

// Where an element is in memory, counted row by row through the tensor.
std::int64_t offset_of(const torch::Tensor& tensor, std::int64_t element) {
  std::int64_t offset = 0;
  for (std::int64_t d = tensor.dim() - 1; d >= 0; --d) {
    offset += element % tensor.size(d) * tensor.stride(d);
    element /= tensor.size(d);
  }
  return offset;
}

// FNV-1a over words.
std::uint64_t add(std::uint64_t hash, std::uint64_t word) { return (hash ^ word) * 0x100000001b3; }

// Of a tensor on a GPU, which would have to be waited for, how often torch has changed it.
std::uint64_t add(std::uint64_t hash, const torch::Tensor& tensor) {
  if (tensor.numel() == 0) return hash;
  if (!tensor.is_cpu()) return add(hash, tensor._version());
  const auto bytes = static_cast<std::int64_t>(tensor.element_size());
  const auto* data = static_cast<const std::byte*>(tensor.const_data_ptr());
  const std::int64_t count = std::min(tensor.numel(), kElements);
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint64_t word = 0;
    const auto* from = data + offset_of(tensor, i * (tensor.numel() / count)) * bytes;
    std::memcpy(&word, from, static_cast<std::size_t>(std::min<std::int64_t>(bytes, sizeof word)));
    hash = add(hash, word);
  }
  return hash;
}

}  // namespace

StepWatch::StepWatch(std::vector<sync::NamedTensor> trainable)
    : trainable_(std::move(trainable)),
      hooks_(
          trainable_, [this](std::size_t) { before_gradient(); },
          [this](std::size_t) { after_gradient(); }) {}

void StepWatch::before_gradient() {
  const int backward = sync::GradientHooks::current_backward();
  if (std::exchange(begun_, backward) != backward) check();
}

// Where a backward fails, no step follows it, and its end is not looked at.
void StepWatch::after_gradient() {
  const int backward = sync::GradientHooks::current_backward();
  if (!sync_ || std::exchange(ends_, backward) == backward) return;
  sync::GradientHooks::when_backward_ends([this] {
    seen_ = fingerprint();
    looks_ = true;
  });
}

std::uint64_t StepWatch::fingerprint() const {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const auto& parameter : trainable_) hash = add(hash, parameter.tensor);
  return hash;
}

std::string StepWatch::complaint() const {
  if (!looks_ || fingerprint() == seen_) return "";
  return "the weights have moved since the last backward, and not by replica->step(): call "
         "replica->step() in place of optimizer.step(), or the workers' models drift apart. A "
         "program that moves weights between two backward passes of one step runs the first of "
         "them in a NoSync scope.";
}

void StepWatch::check() const {
  const std::string found = complaint();
  if (!found.empty()) throw Error(found);
}

}  // namespace asup
