#include "asup/tensors/keep_tensor_memory.h"

#include <c10/core/CPUAllocator.h>

#include "asup/tensors/tensor_memory.h"

namespace asup {
namespace {

constexpr std::size_t kLarge = 8 << 20;  // what is smaller the C library keeps by itself

class KeptMemory final : public c10::Allocator {
 public:
  explicit KeptMemory(c10::Allocator& others) : others_(others) {}

  c10::DataPtr allocate(std::size_t bytes) override {
    void* data = bytes >= kLarge ? memory().take(bytes) : nullptr;
    if (!data) return others_.allocate(bytes);  // which says it where there is none
    return {data, data, &give_back, c10::Device(c10::DeviceType::CPU)};
  }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  // Tensors may live longer than what the program is made of.
  static TensorMemory& memory() {
    static auto* const kMemory = new TensorMemory;  // NOLINT
    return *kMemory;
  }
  static void give_back(void* data) { memory().give_back(data); }

  c10::Allocator& others_;
};

}  // namespace

// AddressSanitizer sees the use of what was freed only in memory that it hands out.
void keep_tensor_memory() {
#if !defined(__SANITIZE_ADDRESS__)
  static const bool kOnce = [] {
    c10::SetCPUAllocator(new KeptMemory(*c10::GetCPUAllocator()));  // NOLINT: torch keeps it
    return true;
  }();
  (void)kOnce;
#endif
}

}  // namespace asup
