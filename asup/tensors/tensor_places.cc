#include "asup/tensors/tensor_places.h"

#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "asup/base/error.h"
#include "asup/tensors/optimizer_state_place.h"
#include "asup/tensors/tensor_memory.h"

namespace asup {
namespace {

constexpr std::size_t kLarge = 8 << 20;   // what is smaller the C library keeps by itself
constexpr std::size_t kInFile = 1 << 20;  // what is smaller is not worth its pages

std::atomic<bool> keeps_memory = false;

std::shared_ptr<TensorMemory>& file_of_thread() {
  thread_local std::shared_ptr<TensorMemory> memory;
  return memory;
}

// Where optimizers' state is to lie, which is none where that is memory.
std::shared_ptr<TensorMemory>& file_of_state() {
  thread_local std::shared_ptr<TensorMemory> memory;
  return memory;
}

TensorBytes*& counter_of_thread() {
  thread_local TensorBytes* counter = nullptr;
  return counter;
}

// Tensors may live longer than what the program is made of.
const std::shared_ptr<TensorMemory>& kept_memory() {
  static const auto* const kMemory = new auto(  // NOLINT
      std::make_shared<TensorMemory>(std::make_unique<HugePages>()));
  return *kMemory;
}

// Whose pieces of memory are which. Safe from any thread.
class Owners {
 public:
  static Owners& all() {
    static auto* const kAll = new Owners;  // NOLINT: as long as tensors
    return *kAll;
  }

  void* take(const std::shared_ptr<TensorMemory>& memory, std::size_t bytes) {
    void* data = memory->take(bytes);
    const std::lock_guard lock(mutex_);
    if (data) owners_[data] = memory;
    return data;
  }

  // False where it is nobody's.
  bool give_back(void* data) {
    std::shared_ptr<TensorMemory> owner;
    {
      const std::lock_guard lock(mutex_);
      const auto found = owners_.find(data);
      if (found == owners_.end()) return false;
      owner = std::move(found->second);
      owners_.erase(found);
    }
    owner->give_back(data);
    return true;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<void*, std::shared_ptr<TensorMemory>> owners_;
};

class Allocator final : public c10::Allocator {
 public:
  explicit Allocator(c10::Allocator& others) : others_(others) {
    free_other = others.raw_deleter();
  }

  // All have one deleter, by which torch may also free what it holds as a plain pointer.
  c10::DataPtr allocate(std::size_t bytes) override {
    void* data = take(bytes);
    if (!data) data = others_.raw_allocate(bytes);  // which says it where there is none
    if (counter_of_thread()) counter_of_thread()->took(data, bytes);
    return {data, data, &free, c10::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free; }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  static inline c10::DeleterFnPtr free_other = nullptr;

  static void* take(std::size_t bytes) {
    if (bytes >= kInFile && file_of_thread()) {
      void* data = Owners::all().take(file_of_thread(), bytes);
      check(data != nullptr,
            "the disk has no room for another {} MB of tensors: give a folder with more "
            "(offload-folder)",
            bytes / 1'000'000);
      return data;
    }
    return bytes >= kLarge && keeps_memory ? Owners::all().take(kept_memory(), bytes) : nullptr;
  }

  // Pieces begin with a page, and hardly anything else does.
  static void free(void* data) {
    if (counter_of_thread()) counter_of_thread()->gave_back(data);
    constexpr std::uintptr_t kPage = 4096;
    const bool may_be_piece = reinterpret_cast<std::uintptr_t>(data) % kPage == 0;
    if (!may_be_piece || !Owners::all().give_back(data)) free_other(data);
  }

  c10::Allocator& others_;
};

void install() {
  static const bool kOnce = [] {
    c10::SetCPUAllocator(new Allocator(*c10::GetCPUAllocator()));  // NOLINT: torch keeps it
    return true;
  }();
  (void)kOnce;
}

}  // namespace

// AddressSanitizer sees the use of what was freed only in memory that it hands out.
void keep_tensor_memory() {
#if !defined(__SANITIZE_ADDRESS__)
  keeps_memory = true;
  install();
#endif
}

TensorFile::TensorFile(const std::string& folder)
    : memory_(std::make_shared<TensorMemory>(std::make_unique<FilePages>(folder))) {
  install();
}

TensorsIn::TensorsIn(const TensorFile& file)
    : memory_(file.memory_), before_(std::exchange(file_of_thread(), memory_)) {}

TensorsIn::~TensorsIn() { file_of_thread() = before_; }

OptimizerStateIn::OptimizerStateIn(const TensorFile& file)
    : memory_(file.memory_), before_(std::exchange(file_of_state(), memory_)) {}

// Another may have come meanwhile, which is to stay.
OptimizerStateIn::~OptimizerStateIn() {
  if (file_of_state() == memory_) file_of_state() = before_;
}

MakesOptimizerState::MakesOptimizerState() : before_(file_of_thread()) {
  if (file_of_state()) file_of_thread() = file_of_state();
}

MakesOptimizerState::~MakesOptimizerState() { file_of_thread() = before_; }

TensorBytes::TensorBytes() : before_(std::exchange(counter_of_thread(), this)) { install(); }

TensorBytes::~TensorBytes() { counter_of_thread() = before_; }

void TensorBytes::took(void* data, std::size_t bytes) {
  if (!data) return;
  sizes_[data] = bytes;
  in_use_ += bytes;
}

void TensorBytes::gave_back(void* data) {
  const auto found = sizes_.find(data);
  if (found == sizes_.end()) return;
  in_use_ -= found->second;
  sizes_.erase(found);
}

}  // namespace asup
