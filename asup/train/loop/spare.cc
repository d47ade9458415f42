#include "asup/train/loop/spare.h"

#include <fmt/format.h>

#include "asup/collective/mesh/mesh_communicator.h"

namespace asup::train {
namespace {

constexpr Seconds kWholeRun(1e9);

// Of rank 0 and this spare alone, so that nobody is held up by the loss of another one.
std::unique_ptr<Communicator> pair_with(Job& job, int spare) {
  return make_communicator(job, {0, spare}, fmt::format("spare {}", spare));
}

}  // namespace

std::optional<bool> wait_as_spare(Job& job) {
  std::uint8_t stopped = 0;
  const auto pair = pair_with(job, job.rank());
  Call call;
  call.collective = collective::Collective::recv;
  call.input = call.output = buffer_of(std::span(&stopped, 1));
  call.timeout = kWholeRun;
  return pair->run(std::move(call)).ok() ? std::optional(stopped != 0) : std::nullopt;
}

Spares::Spares(Job& job, const TrainConfig& config) {
  for (int spare = static_cast<int>(config.workers); spare < job.size(); ++spare)
    pairs_.push_back(pair_with(job, spare));
}

void Spares::tell_end(bool stopped) {
  std::uint8_t word = stopped ? 1 : 0;
  for (const auto& pair : pairs_) (void)pair->send(buffer_of(std::span(&word, 1)), 1);
}

}  // namespace asup::train
