#include "asup/sync/gradients/gradient_arena.h"

#include <c10/core/CPUAllocator.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "asup/base/pages.h"

namespace asup::sync {

// The memory and who uses which part of it.
class GradientArena::Blocks {
 public:
  Blocks(Communicator& communicator, std::span<const std::size_t> sizes, bool keeps_pages)
      : keeps_pages_(keeps_pages) {
    std::map<std::size_t, std::size_t> counts;
    for (const std::size_t size : sizes) ++counts[size];
    std::size_t total = 0;
    for (const auto& [size, count] : counts) total += blocks(count) * stride(size);
    if (total == 0) return;
    memory_ = communicator.allocate(total);
    std::byte* at = memory_->bytes().data();
    for (const auto& [size, count] : counts)
      for (std::size_t i = 0; i < blocks(count); ++i, at += stride(size)) free_[size].push_back(at);
    for (auto& [size, list] : free_) std::reverse(list.begin(), list.end());
  }

  // Null when no block of exactly this size is free.
  std::byte* take(std::size_t size) {
    std::lock_guard lock(mutex_);
    const auto list = free_.find(size);
    if (closed_ || list == free_.end() || list->second.empty()) return nullptr;
    std::byte* block = list->second.back();
    list->second.pop_back();
    return block;
  }

  void give_back(std::byte* block, std::size_t size) {
    if (!keeps_pages_) give_pages_back({block, stride(size)});
    std::lock_guard lock(mutex_);
    free_[size].push_back(block);
  }

  // Nothing is taken any more; what was taken may still be in use.
  void close() {
    std::lock_guard lock(mutex_);
    closed_ = true;
  }

  bool hold(const void* data) const {
    if (!memory_) return false;
    const auto bytes = memory_->bytes();
    return !std::less<>()(data, static_cast<const void*>(bytes.data())) &&
           std::less<>()(data, static_cast<const void*>(bytes.data() + bytes.size()));
  }

 private:
  static std::size_t blocks(std::size_t gradients) { return 2 * gradients + 2; }
  static std::size_t stride(std::size_t size) { return (size + 4095) / 4096 * 4096; }

  const bool keeps_pages_;
  std::unique_ptr<SharedMemory> memory_;

  // Protected by mutex_.
  std::mutex mutex_;
  bool closed_ = false;
  std::map<std::size_t, std::vector<std::byte*>> free_;  // by size; the last one is used next
};

namespace {

// Requests below this are not looked at, so that they cost nothing more than before.
constexpr std::size_t kSmallest = 64 << 10;

// Of this thread, in the order they were made.
std::vector<std::weak_ptr<GradientArena::Blocks>>& arenas_here() {
  thread_local std::vector<std::weak_ptr<GradientArena::Blocks>> arenas;
  return arenas;
}

// The blocks in use, by address, which is all that torch's raw allocations give back.
class Leases {
 public:
  void begin(std::byte* block, std::size_t size, std::shared_ptr<GradientArena::Blocks> arena) {
    std::lock_guard lock(mutex_);
    leases_.insert_or_assign(block, Lease{std::move(arena), size});
  }
  // False when the memory is none of an arena's.
  bool end(void* memory) {
    std::unique_lock lock(mutex_);
    const auto found = leases_.find(memory);
    if (found == leases_.end()) return false;
    const Lease lease = std::move(found->second);
    leases_.erase(found);
    lock.unlock();
    lease.arena->give_back(static_cast<std::byte*>(memory), lease.size);
    return true;
  }

 private:
  struct Lease {
    std::shared_ptr<GradientArena::Blocks> arena;  // lives as long as its blocks are in use
    std::size_t size;
  };
  std::mutex mutex_;
  std::unordered_map<void*, Lease> leases_;
};

class ArenaAllocator final : public c10::Allocator {
 public:
  // Never destroyed: tensors of any lifetime come from it.
  static ArenaAllocator& instance() {
    static auto* allocator = new ArenaAllocator;
    return *allocator;
  }

  // One more, or one less, wants it in front. The first puts it there, the last restores what was
  // there before.
  void enter() {
    std::lock_guard lock(mutex_);
    // One that another put in front of this may have gone since, and this with it.
    if (users_++ > 0 || (is_in_front_ && c10::GetCPUAllocator() != usual_)) return;
    usual_ = c10::GetCPUAllocator();
    c10::SetCPUAllocator(this);
    // torch keeps an allocator that was set with a higher priority.
    is_in_front_ = c10::GetCPUAllocator() == this;
  }
  void leave() {
    std::lock_guard lock(mutex_);
    if (--users_ > 0 || c10::GetCPUAllocator() != this) return;  // another may be built on this one
    c10::SetCPUAllocator(usual_);
    is_in_front_ = false;
  }

  c10::DataPtr allocate(std::size_t bytes) override {
    const bool in_backward =
        bytes >= kSmallest && torch::autograd::get_current_graph_task_id() >= 0;
    if (in_backward)
      for (const auto& weak : arenas_here())
        if (auto arena = weak.lock())
          if (std::byte* block = arena->take(bytes)) {
            leases_.begin(block, bytes, std::move(arena));
            return {block, block, &release, c10::Device(c10::DeviceType::CPU)};
          }
    return usual_.load()->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    usual_.load()->copy_data(to, from, bytes);
  }

 private:
  ArenaAllocator() = default;

  static void release(void* memory) {
    if (!instance().leases_.end(memory)) instance().usual_.load()->raw_deleter()(memory);
  }

  // Stays after leave(): another thread may be in allocate().
  std::atomic<c10::Allocator*> usual_ = nullptr;
  Leases leases_;

  // Protected by mutex_.
  std::mutex mutex_;
  int users_ = 0;
  bool is_in_front_ = false;
};

std::shared_ptr<const void> put_allocator_in_front() {
  ArenaAllocator& allocator = ArenaAllocator::instance();
  allocator.enter();
  return {&allocator, [](ArenaAllocator* in_front) { in_front->leave(); }};
}

}  // namespace

GradientArena::GradientArena(Communicator& communicator, std::span<const std::size_t> sizes,
                             bool keeps_pages)
    : blocks_(std::make_shared<Blocks>(communicator, sizes, keeps_pages)) {
  if (sizes.empty()) return;
  allocator_ = put_allocator_in_front();
  std::erase_if(arenas_here(), [](const auto& weak) { return weak.expired(); });
  arenas_here().push_back(blocks_);
}

GradientArena::~GradientArena() { blocks_->close(); }

bool GradientArena::holds(const torch::Tensor& tensor) const {
  return blocks_->hold(tensor.data_ptr());
}

}  // namespace asup::sync
