#include "asup/data/prefetch.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "asup/base/timeline.h"

namespace asup::data {

class Prefetcher::Worker {
 public:
  Worker(const Dataset& dataset, const ShardedBatches& batches, std::uint64_t epoch,
         std::size_t first_step, std::size_t depth, std::vector<std::int64_t> shares)
      : dataset_(dataset),
        batches_(batches),
        epoch_(epoch),
        first_step_(first_step),
        depth_(std::max<std::size_t>(depth, 1)),
        shares_(std::move(shares)),
        timeline_(current_timeline()),
        thread_([this] { run(); }) {}

  ~Worker() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    room_.notify_one();
    thread_.join();
  }

  std::optional<Batch> next() {
    std::unique_lock lock(mutex_);
    timeline_counter("batches ready", static_cast<std::int64_t>(ready_.size()));
    filled_.wait(lock, [this] { return !ready_.empty() || ended_; });
    if (ready_.empty()) {
      if (error_) std::rethrow_exception(error_);
      return std::nullopt;
    }
    Batch batch = std::move(ready_.front());
    ready_.pop_front();
    room_.notify_one();
    return batch;
  }

 private:
  void run() {
    const TimelineThread recorded(timeline_, "data");
    std::exception_ptr error;
    try {
      for (std::size_t step = first_step_; step < batches_.steps_per_epoch() && wait_for_room();
           ++step)
        put(load(step));
    } catch (...) {
      error = std::current_exception();
    }
    std::lock_guard lock(mutex_);
    error_ = error;
    ended_ = true;
    filled_.notify_one();
  }

  Batch load(std::size_t step) const {
    const TimelineScope scope(Activity::load);
    return dataset_.get(batches_.indices(epoch_, step, batches_.part(epoch_, step, shares_)),
                        epoch_);
  }

  // False when the prefetcher is going away.
  bool wait_for_room() {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [this] { return stop_ || ready_.size() < depth_; });
    return !stop_;
  }

  void put(Batch batch) {
    std::lock_guard lock(mutex_);
    ready_.push_back(std::move(batch));
    filled_.notify_one();
  }

  // Constant after construction.
  const Dataset& dataset_;
  const ShardedBatches& batches_;
  const std::uint64_t epoch_;
  const std::size_t first_step_, depth_;
  const std::vector<std::int64_t> shares_;
  Timeline* const timeline_;  // the maker's, which outlives this; null: none

  // Protected by mutex_.
  std::mutex mutex_;
  std::condition_variable filled_, room_;
  std::deque<Batch> ready_;
  std::exception_ptr error_;
  bool ended_ = false, stop_ = false;

  std::thread thread_;  // last: it uses all of the above
};

Prefetcher::Prefetcher(const Dataset& dataset, const ShardedBatches& batches, std::uint64_t epoch,
                       std::size_t first_step, std::size_t depth, std::vector<std::int64_t> shares)
    : worker_(std::make_unique<Worker>(dataset, batches, epoch, first_step, depth,
                                       std::move(shares))) {}

Prefetcher::~Prefetcher() = default;

std::optional<Batch> Prefetcher::next() { return worker_->next(); }

}  // namespace asup::data
