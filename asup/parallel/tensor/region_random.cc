#include "asup/parallel/tensor/region_random.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>

#include "asup/base/seed.h"

namespace asup::parallel {
namespace {

at::Generator generator() { return at::detail::getDefaultCPUGenerator(); }

}  // namespace

RegionRandom::RegionRandom(const TensorGroup& group) {
  at::Generator random = generator();
  std::lock_guard lock(random.mutex());
  const std::uint64_t drawn = random.get<at::CPUGeneratorImpl>()->random64();
  state_ = random.get_state();
  random.set_current_seed(seed_of(drawn ^ seed_of(static_cast<std::uint64_t>(group.rank()))));
}

RegionRandom::~RegionRandom() {
  at::Generator random = generator();
  std::lock_guard lock(random.mutex());
  random.set_state(state_);
}

}  // namespace asup::parallel
