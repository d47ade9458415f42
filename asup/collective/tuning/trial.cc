#include "asup/collective/tuning/trial.h"

#include <algorithm>
#include <array>

namespace asup::collective::tuning {
namespace {

std::span<float> floats(const Buffer& buffer) {
  return {static_cast<float*>(buffer.data), buffer.count};
}

// What rank r brings at place i: sums are exact, and what ends at another place is seen.
float brought(int rank, std::size_t i) {
  return static_cast<float>(rank + 1) + static_cast<float>(i % 5);
}

float summed(int ranks, std::size_t i) {
  return static_cast<float>(ranks * (ranks + 1) / 2) +
         static_cast<float>(ranks) * static_cast<float>(i % 5);
}

// Of element `i` of rank's output, where each rank has `block` elements.
float expected(Collective collective, int ranks, int rank, std::size_t i, std::size_t block) {
  switch (collective) {
    case Collective::all_reduce:
      return summed(ranks, i);
    case Collective::reduce_scatter:
      return summed(ranks, static_cast<std::size_t>(rank) * block + i);
    case Collective::all_gather:
      return brought(static_cast<int>(i / block), i % block);
    default:
      return brought(0, i);  // the root's
  }
}

}  // namespace

bool has_trial(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::reduce_scatter ||
         collective == Collective::all_gather || collective == Collective::broadcast ||
         collective == Collective::barrier;
}

Trial::Trial(Communicator& communicator, Collective collective, std::size_t bytes, bool shared)
    : communicator_(communicator), shared_(shared && communicator.size() > 1) {
  require(has_trial(collective), "there is no trial of {}", name_of(collective));
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const std::size_t block = std::max<std::size_t>(1, bytes / sizeof(float) / ranks);
  call_.collective = collective;
  switch (collective) {
    case Collective::barrier:
      break;
    case Collective::reduce_scatter:
      call_.input = buffer(block * ranks, shared);
      call_.output = buffer(block, shared);
      break;
    case Collective::all_gather:
      call_.input = buffer(block, shared);
      call_.output = buffer(block * ranks, shared);
      break;
    default:
      call_.input = call_.output = buffer(std::max<std::size_t>(1, bytes / sizeof(float)), shared);
  }
}

Buffer Trial::buffer(std::size_t count, bool shared) {
  if (shared) {
    reachable_.push_back(communicator_.allocate(count * sizeof(float)));
    return {reachable_.back()->bytes().data(), count, Dtype::f32};
  }
  own_.emplace_back(count);
  return {own_.back().data(), count, Dtype::f32};
}

Spec Trial::spec() const {
  Spec spec;
  spec.collective = call_.collective;
  spec.ranks = communicator_.size();
  spec.count = std::max(call_.input.count, call_.output.count);
  spec.in_place = call_.input.data == call_.output.data;
  spec.shared = shared_;
  return spec;
}

double Trial::run() {
  const auto start = Clock::now();
  communicator_.run(call_).or_throw();
  return seconds_since(start);
}

void Trial::check_result(const std::string& algorithm) {
  call_.algorithm = algorithm;
  const int ranks = communicator_.size(), rank = communicator_.rank();
  for (std::size_t i = 0; i < call_.input.count; ++i) floats(call_.input)[i] = brought(rank, i);
  run();
  const std::size_t block =
      std::max<std::size_t>(1, spec().count / static_cast<std::size_t>(ranks));
  for (std::size_t i = 0; i < call_.output.count; ++i) {
    const float right = expected(call_.collective, ranks, rank, i, block);
    check(floats(call_.output)[i] == right, "{} by {}: element {} of {} is {} and should be {}",
          name_of(call_.collective), algorithm.empty() ? "choice" : algorithm, i,
          call_.output.count, floats(call_.output)[i], right);
  }
  std::ranges::fill(floats(call_.input), 0.0f);  // repeated sums stay finite
}

std::vector<double> Trial::times(const std::string& algorithm, double seconds) {
  call_.algorithm = algorithm;
  double quickest = run();
  for (int i = 0; i < 4; ++i) quickest = std::min(quickest, run());
  std::array<std::int32_t, 1> runs{
      static_cast<std::int32_t>(std::clamp(seconds / std::max(quickest, 1e-7), 3.0, 20000.0))};
  communicator_.broadcast(buffer_of(std::span(runs))).or_throw();
  const bool together = call_.collective == Collective::broadcast;
  std::vector<double> times;
  times.reserve(static_cast<std::size_t>(runs[0]));
  for (std::int32_t i = 0; i < runs[0]; ++i) {
    if (together) communicator_.barrier().or_throw();
    times.push_back(run());
  }
  if (together) communicator_.all_reduce(buffer_of(std::span(times)), ReduceOp::max).or_throw();
  std::ranges::sort(times);
  return times;
}

double Trial::time(const std::string& algorithm, double seconds) {
  const std::vector<double> sorted = times(algorithm, seconds);
  return sorted[sorted.size() / 2];
}

}  // namespace asup::collective::tuning
