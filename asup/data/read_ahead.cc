#include "asup/data/read_ahead.h"

#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <optional>

#include "asup/base/thread.h"
#include "asup/base/timeline.h"

namespace asup::data {

class ReadAhead::Worker {
 public:
  Worker()
      : timeline_(current_timeline()),
        thread_(start_thread("asup-read-ahead", [this] { run(); })) {}

  ~Worker() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

  void begin(const Dataset& dataset, std::vector<std::int64_t> indices, std::uint64_t epoch) {
    indices_ = indices;
    epoch_ = epoch;
    std::packaged_task<Batch()> task([&dataset, indices = std::move(indices), epoch] {
      const TimelineScope scope(Activity::load);
      return dataset.get(indices, epoch);
    });
    batch_ = task.get_future();
    {
      const std::lock_guard lock(mutex_);
      task_ = std::move(task);
    }
    wake_.notify_one();
  }

  // Nothing where another batch was begun, or none.
  std::optional<Batch> take(const std::vector<std::int64_t>& indices, std::uint64_t epoch) {
    if (!batch_.valid() || indices_ != indices || epoch_ != epoch) return std::nullopt;
    const bool is_ready = batch_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    timeline_counter("batches ready", is_ready ? 1 : 0);
    return batch_.get();
  }

 private:
  void run() {
    const TimelineThread recorded(timeline_, "data");
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [this] { return stop_ || task_; });
      if (stop_) return;
      std::packaged_task<Batch()> task = std::move(*task_);
      task_.reset();
      lock.unlock();
      task();
      lock.lock();
    }
  }

  Timeline* const timeline_;  // the maker's, which outlives this; null: none

  // Of the caller's thread.
  std::vector<std::int64_t> indices_;
  std::uint64_t epoch_ = 0;
  std::future<Batch> batch_;

  // Protected by mutex_.
  std::mutex mutex_;
  std::condition_variable wake_;
  std::optional<std::packaged_task<Batch()>> task_;
  bool stop_ = false;

  std::thread thread_;  // last: it uses all of the above
};

ReadAhead::ReadAhead(const Dataset& dataset)
    : dataset_(dataset), worker_(std::make_unique<Worker>()) {}

ReadAhead::~ReadAhead() = default;

void ReadAhead::begin(std::vector<std::int64_t> indices, std::uint64_t epoch) {
  worker_->begin(dataset_, std::move(indices), epoch);
}

Batch ReadAhead::take(const std::vector<std::int64_t>& indices, std::uint64_t epoch) {
  if (auto batch = worker_->take(indices, epoch)) return *std::move(batch);
  return dataset_.get(indices, epoch);
}

}  // namespace asup::data
