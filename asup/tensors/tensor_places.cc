#include "asup/tensors/tensor_places.h"

#include <c10/core/CPUAllocator.h>

#include <atomic>

#include "asup/base/error.h"
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

// Tensors may live longer than what the program is made of.
TensorMemory& kept_memory() {
  static auto* const kMemory = new TensorMemory(std::make_unique<HugePages>());  // NOLINT
  return *kMemory;
}

struct InFile {
  std::shared_ptr<TensorMemory> memory;
  void* data;
};

class Allocator final : public c10::Allocator {
 public:
  explicit Allocator(c10::Allocator& others) : others_(others) {}

  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes >= kInFile && file_of_thread()) return in_file(bytes);
    void* data = bytes >= kLarge && keeps_memory ? kept_memory().take(bytes) : nullptr;
    if (!data) return others_.allocate(bytes);  // which says it where there is none
    return {data, data, [](void* piece) { kept_memory().give_back(piece); }, c10::kCPU};
  }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  static c10::DataPtr in_file(std::size_t bytes) {
    auto piece = std::make_unique<InFile>(InFile{file_of_thread(), nullptr});
    piece->data = piece->memory->take(bytes);
    check(piece->data != nullptr,
          "the disk has no room for another {} MB of tensors: give a folder with more "
          "(offload-folder)",
          bytes / 1'000'000);
    void* data = piece->data;
    const auto free = [](void* context) {
      const std::unique_ptr<InFile> piece(static_cast<InFile*>(context));
      piece->memory->give_back(piece->data);
    };
    return {data, piece.release(), free, c10::kCPU};
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

}  // namespace asup
