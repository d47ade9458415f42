#include "asup/ps/thread_pool.h"

#include "asup/base/error.h"
#include "asup/base/thread.h"

namespace asup::ps {

ThreadPool::ThreadPool(int threads) {
  for (int i = 0; i < threads; ++i)
    threads_.push_back(start_thread("asup update", [this] { run(); }));
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::start(std::size_t parts, std::function<void(std::size_t)> work,
                       std::function<void()> done) {
  check(!own_ || own_->ended == own_->parts, "a pool was given a job while it works on another");
  check(parts > 0, "a job without parts");
  own_ = std::make_shared<Job>();
  own_->parts = parts;
  own_->work = std::move(work);
  own_->done = std::move(done);
  if (threads_.empty() || parts == 1) return;
  {
    const std::lock_guard lock(mutex_);
    job_ = own_;
  }
  changed_.notify_all();
}

bool ThreadPool::help() {
  const auto job = own_;  // done() may start the next
  return job && do_part(*job);
}

bool ThreadPool::do_part(Job& job) {
  const std::size_t part = job.begun++;
  if (part >= job.parts) return false;
  job.work(part);
  if (++job.ended == job.parts) job.done();
  return true;
}

void ThreadPool::run() {
  std::shared_ptr<Job> seen;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || job_ != seen; });
      if (stopping_) return;
      seen = job_;
    }
    while (do_part(*seen)) {
    }
  }
}

}  // namespace asup::ps
