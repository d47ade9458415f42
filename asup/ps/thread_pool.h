// Threads that help whoever has a job of many parts, one job at a time: the thread that serves the
// links works on an update too, but looks at the links between two parts.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace asup::ps {

class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool();  // needs: no job is under way
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Has work(part) called for each part in [0, parts), once each, on any of the threads or in
  // help(); then done() once, by whoever did the last. Returns at once. needs: a part or more, and
  // the job before is done
  void start(std::size_t parts, std::function<void(std::size_t part)> work,
             std::function<void()> done);

  // Does a part of the job under way; false where none is left to begin. For the thread that
  // started it.
  bool help();

 private:
  struct Job {
    std::size_t parts;
    std::function<void(std::size_t)> work;
    std::function<void()> done;
    std::atomic<std::size_t> begun{0}, ended{0};
  };

  static bool do_part(Job& job);
  void run();

  std::shared_ptr<Job> own_;  // the owner's: the job under way, or the last

  // Protected by mutex_.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<Job> job_;
  bool stopping_ = false;

  std::vector<std::thread> threads_;
};

}  // namespace asup::ps
