#include "asup/data/parallel_for.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include "asup/base/thread.h"

namespace asup::data {

class ParallelFor::Threads {
 public:
  explicit Threads(int count) : count_(count) {}

  ~Threads() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    for (auto& thread : threads_) thread.join();
  }

  void run(std::size_t count, const std::function<void(std::size_t)>& work) {
    Call call{count, work};
    std::unique_lock lock(mutex_);
    while (static_cast<int>(threads_.size()) < count_)
      threads_.push_back(start_thread("asup-data", [this] { serve(); }));
    const auto place = calls_.insert(calls_.end(), &call);
    changed_.notify_all();
    while (call.begun < call.count) do_one(call, lock);
    calls_.erase(place);
    call.done.wait(lock, [&] { return call.under_way == 0; });
    if (call.error) std::rethrow_exception(call.error);
  }

 private:
  struct Call {
    std::size_t count;
    const std::function<void(std::size_t)>& work;
    std::size_t begun = 0, under_way = 0;
    std::exception_ptr error{};
    std::condition_variable done{};
  };

  void serve() {
    std::unique_lock lock(mutex_);
    while (true) {
      const auto open = [](const Call* call) { return call->begun < call->count; };
      const auto found = std::find_if(calls_.begin(), calls_.end(), open);
      if (found != calls_.end())
        do_one(**found, lock);
      else if (stop_)
        return;
      else
        changed_.wait(lock);
    }
  }

  // needs: the lock, which it holds again at the end.
  static void do_one(Call& call, std::unique_lock<std::mutex>& lock) {
    const std::size_t i = call.begun++;
    ++call.under_way;
    lock.unlock();
    std::exception_ptr error;
    try {
      call.work(i);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error && !call.error) call.error = error;
    if (error) call.begun = call.count;
    if (--call.under_way == 0) call.done.notify_one();
  }

  const int count_;  // besides the caller's

  // Protected by mutex_.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Call*> calls_;  // the oldest first
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

ParallelFor::ParallelFor(int threads)
    : pool_(std::make_unique<Threads>((threads > 0 ? threads : usable_cores()) - 1)) {}

ParallelFor::~ParallelFor() = default;

void ParallelFor::operator()(std::size_t count, const std::function<void(std::size_t)>& work) {
  pool_->run(count, work);
}

}  // namespace asup::data
