#include "asup/tensors/tensor_memory.h"

#include <algorithm>
#include <iterator>
#include <limits>

namespace asup {

TensorMemory::~TensorMemory() { release_down_to(0); }

void* TensorMemory::take(std::size_t bytes) {
  if (bytes > std::numeric_limits<std::size_t>::max() / 2) return nullptr;
  const std::size_t page = pages_->size();
  bytes = (std::max(bytes, std::size_t{1}) + page - 1) / page * page;
  const std::lock_guard lock(mutex_);
  void* data = take_kept(bytes);
  if (!data) data = map(bytes);
  if (!data) return nullptr;
  bytes_taken_ += taken_[data];
  most_taken_ = std::max(most_taken_, bytes_taken_);
  return data;
}

// A little larger will do.
void* TensorMemory::take_kept(std::size_t bytes) {
  const auto found = by_size_.lower_bound(bytes);
  if (found == by_size_.end() || found->first > bytes + bytes / 8) return nullptr;
  const Pieces::iterator piece = found->second;
  void* data = piece->data;
  taken_[data] = piece->bytes;
  bytes_kept_ -= piece->bytes;
  by_size_.erase(found);
  kept_.erase(piece);
  return data;
}

// Others go where there would be more than ever was in use.
void* TensorMemory::map(std::size_t bytes) {
  const std::size_t in_use = bytes_taken_ + bytes;
  release_down_to(std::max(most_taken_, in_use) - in_use);
  void* data = pages_->map(bytes);
  if (!data) {
    release_down_to(0);
    data = pages_->map(bytes);
  }
  if (data) taken_[data] = bytes;
  return data;
}

void TensorMemory::give_back(void* data) {
  const std::lock_guard lock(mutex_);
  const auto taken = taken_.find(data);
  kept_.push_back({data, taken->second});
  by_size_.emplace(taken->second, std::prev(kept_.end()));
  bytes_kept_ += taken->second;
  bytes_taken_ -= taken->second;
  taken_.erase(taken);
}

void TensorMemory::release_down_to(std::size_t bytes) {
  while (bytes_kept_ > bytes) {
    const Piece oldest = kept_.front();
    const auto [first, last] = by_size_.equal_range(oldest.bytes);
    by_size_.erase(
        std::find_if(first, last, [&](const auto& each) { return each.second == kept_.begin(); }));
    kept_.pop_front();
    bytes_kept_ -= oldest.bytes;
    pages_->unmap(oldest.data, oldest.bytes);
  }
}

std::size_t TensorMemory::in_use() const {
  const std::lock_guard lock(mutex_);
  return bytes_taken_;
}

std::size_t TensorMemory::kept() const {
  const std::lock_guard lock(mutex_);
  return bytes_kept_;
}

}  // namespace asup
