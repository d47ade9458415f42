#include "asup/tensors/tensor_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <limits>

namespace asup {
namespace {

constexpr std::size_t kHugePage = 2 << 20;

std::size_t in_huge_pages(std::size_t bytes) {
  return (bytes + kHugePage - 1) / kHugePage * kHugePage;
}

// Of the system, beginning with a huge page; nullptr where there is none. Needs: whole huge pages
void* map(std::size_t bytes) {
  void* mapped =
      mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<std::uintptr_t>(mapped);
  const std::uintptr_t first = in_huge_pages(begin), last = first + bytes;
  if (first > begin) munmap(mapped, first - begin);
  if (begin + kHugePage > first)
    munmap(reinterpret_cast<void*>(last), begin + kHugePage - first);  // NOLINT
  void* data = reinterpret_cast<void*>(first);                         // NOLINT
  (void)madvise(data, bytes, MADV_HUGEPAGE);
  return data;
}

}  // namespace

TensorMemory::~TensorMemory() { release_down_to(0); }

void* TensorMemory::take(std::size_t bytes) {
  if (bytes > std::numeric_limits<std::size_t>::max() / 2) return nullptr;
  bytes = in_huge_pages(std::max(bytes, std::size_t{1}));
  const std::lock_guard lock(mutex_);
  void* data = take_kept(bytes);
  if (!data) {
    const std::size_t in_all = std::max(most_taken_, bytes_taken_ + bytes);
    release_down_to(in_all - bytes_taken_ - bytes);
    data = map(bytes);
    if (!data) {
      release_down_to(0);
      data = map(bytes);
    }
    if (!data) return nullptr;
    taken_[data] = bytes;
  }
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
    const auto [first, last] = by_size_.equal_range(kept_.front().bytes);
    by_size_.erase(
        std::find_if(first, last, [&](const auto& at) { return at.second == kept_.begin(); }));
    munmap(kept_.front().data, kept_.front().bytes);
    bytes_kept_ -= kept_.front().bytes;
    kept_.pop_front();
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
