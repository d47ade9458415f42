#include "asup/train/device.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>
#include <vector>

#include "asup/base/numbers.h"

namespace asup::train {
namespace {

const std::string kCuda = "cuda";

int gpus() {
  return torch::cuda::is_available() ? static_cast<int>(torch::cuda::device_count()) : 0;
}

// Why there is no GPU.
std::string what_is_missing() {
  if (!at::Context::hasCUDART())
    return "this asup is built with a torch for CPUs alone: build it with one for CUDA (ASUP_TORCH "
           "says which)";
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return fmt::format("torch finds no GPU here ({}): nvidia-smi shows those there are",
                     visible ? fmt::format("CUDA_VISIBLE_DEVICES is '{}'", visible)
                             : "CUDA_VISIBLE_DEVICES is not set");
}

// The N of cuda:N, or none.
std::optional<std::int64_t> number_of(const std::string& setting) {
  if (!setting.starts_with(kCuda + ":")) return std::nullopt;
  return number_in<std::int64_t>(setting.substr(kCuda.size() + 1));
}

void check_device(const std::string& setting, int gpus) {
  if (setting == "cpu" || setting == "auto") return;
  const auto number = number_of(setting);
  require(setting == kCuda || (number && *number >= 0),
          "device = '{}' is none of cpu, cuda, cuda:N and auto", setting);
  require(gpus > 0, "device = {}: {}. Or use device = cpu", setting, what_is_missing());
  require(!number || *number < gpus,
          "device = {}: there is no such GPU here, where torch finds {}: cuda:0 is the first",
          setting, gpus);
}

}  // namespace

void check_device(const std::string& setting) { check_device(setting, gpus()); }

int place_on_host(const Job& job) {
  const auto workers = job.roster().workers();
  const auto own = static_cast<std::ptrdiff_t>(job.rank());
  const auto& host = workers[static_cast<std::size_t>(own)].host;
  return static_cast<int>(
      std::count_if(workers.begin(), workers.begin() + own,
                    [&](const net::Member& member) { return member.host == host; }));
}

torch::Device choose_device(const std::string& setting, int place_on_host) {
  return choose_device(setting, place_on_host, gpus());
}

torch::Device choose_device(const std::string& setting, int place_on_host, int gpus) {
  check_device(setting, gpus);
  if (setting == "cpu" || (setting == "auto" && gpus == 0)) return torch::kCPU;
  const auto index = number_of(setting).value_or(place_on_host % gpus);
  return {torch::kCUDA, static_cast<c10::DeviceIndex>(index)};
}

void set_arithmetic(const TrainConfig& config) {
  at::Context& context = at::globalContext();
  context.setDeterministicCuDNN(true);
  context.setBenchmarkCuDNN(false);
  context.setAllowTF32CuDNN(config.tf32);
  context.setAllowTF32CuBLAS(config.tf32);
}

std::string devices_in_words(Communicator& workers, const torch::Device& own) {
  std::int64_t mine = own.is_cpu() ? -1 : own.index();
  std::vector<std::int64_t> all(static_cast<std::size_t>(workers.size()));
  workers.all_gather(buffer_of(std::span(&mine, 1)), buffer_of(std::span(all))).or_throw();
  std::vector<std::string> names;
  for (const std::int64_t index : std::set(all.begin(), all.end()))
    names.push_back(index < 0 ? "cpu" : fmt::format("{}:{}", kCuda, index));
  return fmt::format("{}", fmt::join(names, ", "));
}

std::uint64_t peak_device_memory(const torch::Device& device) {
  if (device.is_cpu()) return 0;
  const auto stats = at::getDeviceAllocator(device.type())->getDeviceStats(device.index());
  return static_cast<std::uint64_t>(stats.allocated_bytes[0].peak);  // 0: of all kinds
}

void forget_peak_device_memory(const torch::Device& device) {
  if (device.is_cpu()) return;
  auto* allocator = at::getDeviceAllocator(device.type());
  allocator->emptyCache();
  allocator->resetPeakStats(device.index());
}

std::string lack_of_memory(const c10::OutOfMemoryError& error) {
  const std::string what = error.what_without_backtrace();
  return fmt::format(
      "a GPU has not enough memory: {}. Use a smaller batch, more portions of it (accumulate), or "
      "fewer workers for each GPU",
      what.substr(0, what.find_first_of(".\n")));
}

}  // namespace asup::train
