#include "asup/sync/gradients/gradient_exchange.h"

#include <algorithm>
#include <cmath>

#include "asup/base/error.h"

namespace asup::sync {
namespace {

// Notes that travel in the last bucket, and come back as averages.
enum Note : std::size_t {
  kUnused,  // 1 where a gradient did not come
  kStep,    // the step's lowest bit: ranks whose rounds slipped against each other differ in it
  kNotes
};

}  // namespace

GradientExchange::GradientExchange(Communicator& communicator, std::vector<NamedTensor> parameters,
                                   std::span<const std::size_t> order,
                                   const layout::BucketSizes& sizes)
    : communicator_(communicator),
      collector_(communicator, std::move(parameters), order, sizes, kNotes, *this) {}

// Peers may still read our buckets.
GradientExchange::~GradientExchange() {
  for (Work& work : works_) (void)work.wait();
}

void GradientExchange::carry(std::size_t bucket, Buffer buffer) {
  if (bucket == 0) {
    works_.clear();
    returned_ = 0;
  }
  if (bucket + 1 == collector_.buckets().size()) write_notes();
  if (!under_way_) under_way_since_ = Clock::now();
  under_way_ = true;
  works_.push_back(communicator_.start_all_reduce(buffer, ReduceOp::average));
}

void GradientExchange::write_notes() {
  const auto& used = collector_.used();
  const bool unused = std::find(used.begin(), used.end(), 0) != used.end();
  collector_.buckets().write_note(kUnused, unused ? 1 : 0);
  collector_.buckets().write_note(kStep, static_cast<double>(step_ % 2));
}

void GradientExchange::finish_round() {
  wait_for_works();
  read_notes();
}

void GradientExchange::wait_for_works() {
  const auto start = Clock::now();
  Outcome failure;
  for (std::size_t bucket = 0; bucket < works_.size(); ++bucket) {
    const Outcome outcome = works_[bucket].wait();
    if (failure.ok()) failure = outcome;
    if (failure.ok() && bucket >= returned_) collector_.buckets().to_device(bucket);
  }
  returned_ = works_.size();
  wait_seconds_ += seconds_since(start);
  watch();
  failure.or_throw(fmt::format("averaging the gradients of step {}", step_));
}

// Averages that are there go back meanwhile.
void GradientExchange::about_to_wait() {
  for (; returned_ < works_.size() && works_[returned_].done(); ++returned_) {
    if (!works_[returned_].wait().ok()) return;
    collector_.buckets().to_device(returned_);
  }
}

void GradientExchange::read_notes() {
  // 16-bit floats count exactly only so far: half a rank's part, but never less than their error.
  const double tolerance = std::max(0.5 / communicator_.size(), 0.01);
  const Buckets& buckets = collector_.buckets();
  if (std::abs(buckets.note(kStep) - static_cast<double>(step_ % 2)) > tolerance)
    throw JobFailed(
        fmt::format("in step {} the ranks average gradients of different steps: every rank must "
                    "call backward equally often (with synchronization on) before each step(); one "
                    "without data may call step() alone",
                    step_));
  if (buckets.note(kUnused) > 0) share_unused();
}

// Some rank has gradients that did not come. Those that came on another rank have an average here
// too; those that came nowhere stay as they are, so that no optimizer moves their parameters.
void GradientExchange::share_unused() {
  const auto start = Clock::now();
  std::vector<std::uint8_t> anywhere = collector_.used();
  const Outcome outcome = communicator_.all_reduce(buffer_of(std::span(anywhere)), ReduceOp::max);
  wait_seconds_ += seconds_since(start);
  outcome.or_throw();
  for (std::size_t i = 0; i < anywhere.size(); ++i)
    if (anywhere[i] && !collector_.used()[i]) collector_.define(i);
}

void GradientExchange::next_step() {
  collector_.next_round();
  ++step_;
}

// Notes when the exchange came to an end, as closely as gradients arrive.
void GradientExchange::watch() {
  if (!under_way_ || !works_.back().done()) return;
  under_way_ = false;
  exchange_seconds_ += seconds_since(under_way_since_);
}

}  // namespace asup::sync
