// Threads that work through the parts of one job at a time, for whoever may not do it himself: the
// thread that serves the links.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace asup::ps {

class Crew {
 public:
  explicit Crew(int threads);
  ~Crew();  // needs: no job is under way
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  // Calls work(part) for each part in [0, parts), each once, on any of the threads, then done() on
  // one of them. Returns at once. needs: the job before is done
  void start(std::size_t parts, std::function<void(std::size_t part)> work,
             std::function<void()> done);

  int threads() const { return static_cast<int>(threads_.size()); }

 private:
  void run();

  // Protected by mutex_.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t job_ = 0;  // the number of the one under way, or of the last
  bool stopping_ = false;
  int working_ = 0;  // threads at the job

  // Written while nobody works.
  std::size_t parts_ = 0;
  std::function<void(std::size_t)> work_;
  std::function<void()> done_;

  std::atomic<std::size_t> next_{0};
  std::vector<std::thread> threads_;
};

}  // namespace asup::ps
