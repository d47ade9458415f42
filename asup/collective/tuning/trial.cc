#include "asup/collective/tuning/trial.h"

#include <algorithm>
#include <array>

namespace asup::collective::tuning {
namespace {

std::span<float> floats(const Buffer& buffer) {
  return {static_cast<float*>(buffer.data), buffer.count};
}

// Of element `i`, where rank r brings r + 1.
float expected(Collective collective, int ranks, std::size_t i, std::size_t block) {
  switch (collective) {
    case Collective::all_reduce:
    case Collective::reduce_scatter:
      return static_cast<float>(ranks * (ranks + 1) / 2);
    case Collective::all_gather:
      return static_cast<float>(i / block + 1);
    default:
      return 1;  // the root's
  }
}

}  // namespace

bool has_trial(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::reduce_scatter ||
         collective == Collective::all_gather || collective == Collective::broadcast;
}

Trial::Trial(Communicator& communicator, Collective collective, std::size_t bytes, bool shared)
    : communicator_(communicator), shared_(shared && communicator.size() > 1) {
  require(has_trial(collective), "there is no trial of {}", name_of(collective));
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const std::size_t block = std::max<std::size_t>(1, bytes / sizeof(float) / ranks);
  call_.collective = collective;
  switch (collective) {
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
  std::ranges::fill(floats(call_.input), static_cast<float>(communicator_.rank() + 1));
  run();
  const std::size_t block = std::max<std::size_t>(1, call_.input.count);
  for (std::size_t i = 0; i < call_.output.count; ++i) {
    const float right = expected(call_.collective, communicator_.size(), i, block);
    check(floats(call_.output)[i] == right, "{} by {}: element {} of {} is {} and should be {}",
          name_of(call_.collective), algorithm, i, call_.output.count, floats(call_.output)[i],
          right);
  }
  std::ranges::fill(floats(call_.input), 0.0f);  // repeated sums stay finite
}

double Trial::time(const std::string& algorithm, double seconds) {
  call_.algorithm = algorithm;
  run();
  std::array<std::int32_t, 1> runs{
      static_cast<std::int32_t>(std::clamp(seconds / std::max(run(), 1e-7), 3.0, 10000.0))};
  communicator_.broadcast(buffer_of(std::span(runs))).or_throw();
  const bool together = call_.collective == Collective::broadcast;
  std::vector<double> times;
  for (std::int32_t i = 0; i < runs[0]; ++i) {
    if (together) communicator_.barrier().or_throw();
    times.push_back(run());
  }
  if (together) communicator_.all_reduce(buffer_of(std::span(times)), ReduceOp::max).or_throw();
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

}  // namespace asup::collective::tuning
