#include "asup/sync/model/device.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <atomic>
#include <cstdlib>

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/base/quietly.h"

namespace asup::sync {
namespace {

std::atomic<int> forced = 0;  // of a test's; all ranks of it are in one process

// asup's own programs run as if with a GPU in tests of whole runs.
bool forced_by_environment() {
  static const bool is_set = [] {
    const bool asked = std::getenv("ASUP_TEST_COPIES") != nullptr;
    if (asked) log().info("models travel as copies, as ASUP_TEST_COPIES asks");
    return asked;
  }();
  return is_set;
}

// The memory comes from the mesh, and torch locks pages of its own memory only. libcudart is there
// wherever torch has a GPU, without being linked here.
using Register = int (*)(void*, std::size_t, unsigned);
using Unregister = int (*)(void*);
using LastError = int (*)();

template <typename Function>
Function from_cuda(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace

bool travels_as_copy(const torch::Device& device) {
  return !device.is_cpu() || forced > 0 || forced_by_environment();
}

torch::Tensor on_host(const torch::Tensor& tensor) {
  if (!travels_as_copy(tensor.device())) return tensor;
  torch::NoGradGuard no_grad;
  return tensor.is_cpu() ? tensor.detach().clone() : tensor.detach().cpu();
}

void wait_for_stream(const torch::Device& device) {
  if (device.is_cpu()) return;
  const c10::impl::VirtualGuardImpl guard(device.type());
  guard.synchronizeStream(guard.getStream(device));
}

void copy_each(std::span<const torch::Tensor> to, std::span<const torch::Tensor> from) {
  check(to.size() == from.size(), "{} tensors to copy to, and {} to copy from", to.size(),
        from.size());
  torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < to.size(); ++i)
    to[i].detach().copy_(from[i].detach(), /*non_blocking=*/true);
  if (to.empty()) return;
  wait_for_stream(to.front().device());
  wait_for_stream(from.front().device());
}

std::shared_ptr<void> lock_pages(std::span<std::byte> memory, const torch::Device& device) {
  if (!device.is_cuda() || memory.empty()) return nullptr;
  static const auto lock = from_cuda<Register>("cudaHostRegister");
  static const auto unlock = from_cuda<Unregister>("cudaHostUnregister");
  static const auto forget_error = from_cuda<LastError>("cudaGetLastError");
  constexpr unsigned kPortable = 1;   // cudaHostRegisterPortable: for all GPUs of this process
  const c10::DeviceGuard on(device);  // or CUDA would begin to use the first GPU
  const int error =
      lock && unlock && forget_error ? lock(memory.data(), memory.size(), kPortable) : -1;
  if (error == 0)
    return {memory.data(), [device](void* begin) {
              quietly([&] {
                const c10::DeviceGuard there(device);
                unlock(begin);
              });
            }};
  if (forget_error) forget_error();  // or torch would take it for its own
  log().warn("{} MB of memory cannot be locked for the GPU (error {}): copies are slower",
             memory.size() >> 20, error);
  return nullptr;
}

FetchedNumber::FetchedNumber(const torch::Tensor& number) : number_(number) {
  const torch::Device device = number.device();
  if (device.is_cpu()) return;
  number_ = torch::empty(number.sizes(), number.options().device(torch::kCPU).pinned_memory(true));
  number_.copy_(number, /*non_blocking=*/true);
  come_.emplace(device.type());
  come_->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
}

double FetchedNumber::value() const {
  if (come_) come_->synchronize();
  return number_.item<double>();
}

ForcedCopies::ForcedCopies(bool force) : force_(force) { forced += force_; }
ForcedCopies::~ForcedCopies() { forced -= force_; }

}  // namespace asup::sync
