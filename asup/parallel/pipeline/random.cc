#include "asup/parallel/pipeline/random.h"

#include <atomic>
#include <mutex>

#include "asup/base/error.h"
#include "asup/base/seed.h"

namespace asup::parallel {
namespace {

std::atomic<bool> claimed{false};  // as the generator itself, one for the process

}  // namespace

std::uint64_t seed_of_forward(std::uint64_t seed, std::int64_t step, int stage, int micro_batch) {
  std::uint64_t mixed = seed_of(seed);
  for (const std::int64_t number : {step, std::int64_t{stage}, std::int64_t{micro_batch}})
    mixed = seed_of(mixed ^ static_cast<std::uint64_t>(number));
  return mixed;
}

std::uint64_t seed_of_replica(std::uint64_t seed, const Communicator* data) {
  return seed + (data ? static_cast<std::uint64_t>(data->rank()) : 0);
}

SeededScope::SeededScope(torch::Device device, std::uint64_t seed)
    : generator_(at::globalContext().defaultGenerator(device)) {
  const std::lock_guard lock(generator_.mutex());
  before_ = generator_.get_state();
  generator_.set_current_seed(seed);
}

SeededScope::~SeededScope() {
  const std::lock_guard lock(generator_.mutex());
  generator_.set_state(before_);
}

GeneratorClaim::GeneratorClaim() {
  require(
      !claimed.exchange(true),
      "two pipelines in one process would draw from one random generator, which is torch's: run "
      "the ranks as processes, or say .random = false where no layer draws at random");
}

GeneratorClaim::~GeneratorClaim() { claimed = false; }

}  // namespace asup::parallel
