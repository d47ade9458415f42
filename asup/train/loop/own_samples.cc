#include "asup/train/loop/own_samples.h"

#include <algorithm>
#include <array>
#include <utility>

namespace asup::train {

using gossip::SampleRun;

OwnSamples::OwnSamples(RunState& run, Job& job, const std::vector<std::int64_t>& sync_points)
    : run_(run),
      context_(run.context()),
      sync_points_(sync_points),
      samples_(context_.length, *context_.batches),
      timeout_(run.config().timeout),
      dealer_(net::workers_of(job)),
      read_ahead_(*context_.train) {}

void OwnSamples::begin(int dealer, std::uint64_t place) {
  done_before_ = place;
  dealer_.begin(dealer, gossip::DealtSamples(place));
}

void OwnSamples::begin_anew(int dealer) {
  Communicator& control = run_.control();
  std::array<std::int64_t, 2> most{static_cast<std::int64_t>(done_before_), std::ssize(done_)};
  control.all_reduce(buffer_of(std::span(most)), ReduceOp::max).or_throw();
  std::vector<std::int64_t> own;
  for (const SampleRun& run : done_)
    own.insert(own.end(),
               {static_cast<std::int64_t>(run.begin), static_cast<std::int64_t>(run.end)});
  own.resize(static_cast<std::size_t>(2 * most[1]));
  std::vector<std::int64_t> all(own.size() * static_cast<std::size_t>(control.size()));
  if (!own.empty())
    control.all_gather(buffer_of(std::span(own)), buffer_of(std::span(all))).or_throw();
  std::vector<SampleRun> finished;
  for (std::size_t i = 0; i < all.size(); i += 2)
    finished.push_back(
        {static_cast<std::uint64_t>(all[i]), static_cast<std::uint64_t>(all[i + 1])});
  done_before_ = static_cast<std::uint64_t>(most[0]);
  dealer_.begin(dealer, gossip::DealtSamples(done_before_, std::move(finished)));
}

bool OwnSamples::find(std::size_t most) {
  if (!current_ && ahead_.empty())
    if (const auto run = dealer_.ask(most, limit(), timeout_)) ahead_.push_back(*run);
  return take();
}

bool OwnSamples::find_last() {
  if (const auto run = dealer_.await_ahead(timeout_)) ahead_.push_back(*run);
  return take();
}

// A step's worth of what this worker has already.
bool OwnSamples::take() {
  if (current_ || ahead_.empty()) return current_.has_value();
  current_ = ahead_.front().take(part_);
  if (ahead_.front().size() == 0) ahead_.pop_front();
  return true;
}

OwnSamples::Step OwnSamples::read(std::size_t most_ahead) {
  const SampleRun samples = current_.value_or(SampleRun{});
  Step step{step_of(samples), samples.size(),
            read_ahead_.take(indices_of(samples), epoch_of(samples))};
  look_ahead(most_ahead);
  return step;
}

// What comes after the step that begins is read beside it, and more is asked for.
void OwnSamples::look_ahead(std::size_t most) {
  if (const auto run = dealer_.take_ahead()) ahead_.push_back(*run);
  std::size_t steps = 0;
  for (const SampleRun& run : ahead_) steps += (run.size() + part_ - 1) / part_;
  if (!ahead_.empty()) {
    const SampleRun next = SampleRun(ahead_.front()).take(part_);
    read_ahead_.begin(indices_of(next), epoch_of(next));
  }
  if (steps < most) dealer_.ask_ahead(part_, most - steps, limit());
}

void OwnSamples::finish() {
  if (!current_) return;
  dealer_.finish(current_->size());
  done_.push_back(*current_);
  current_.reset();
}

void OwnSamples::met(std::uint64_t place) {
  done_before_ = place;
  std::erase_if(done_, [&](const SampleRun& run) { return run.end <= place; });
}

std::uint64_t OwnSamples::limit() const {
  return static_cast<std::uint64_t>(samples_.of(next_sync_point()));
}

std::int64_t OwnSamples::next_sync_point() const {
  return *std::upper_bound(sync_points_.begin(), sync_points_.end(), run_.step());
}

// What a late or lost worker left of the steps before counts for the next one.
std::int64_t OwnSamples::step_of(const SampleRun& samples) const {
  return std::clamp(samples_.step_at(static_cast<std::int64_t>(samples.begin)), run_.step(),
                    next_sync_point() - 1);
}

std::uint64_t OwnSamples::epoch_of(const SampleRun& samples) const {
  return static_cast<std::uint64_t>(step_of(samples) / context_.length.steps_per_epoch);
}

// Samples of a run follow each other from step to step, all in one epoch, whose end is a sync
// point.
std::vector<std::int64_t> OwnSamples::indices_of(const SampleRun& samples) const {
  std::vector<std::int64_t> indices;
  auto at = static_cast<std::int64_t>(samples.begin);
  const auto end = static_cast<std::int64_t>(samples.end);
  while (at < end) {
    const std::int64_t step = samples_.step_at(at), first = samples_.of(step);
    const std::int64_t stop = std::min(end, samples_.of(step + 1));
    const auto more = context_.batches->indices(
        static_cast<std::uint64_t>(step / context_.length.steps_per_epoch),
        static_cast<std::size_t>(step % context_.length.steps_per_epoch),
        {static_cast<std::size_t>(at - first), static_cast<std::size_t>(stop - first)});
    indices.insert(indices.end(), more.begin(), more.end());
    at = stop;
  }
  return indices;
}

}  // namespace asup::train
