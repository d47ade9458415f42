#include "asup/ps/crew.h"

#include "asup/base/error.h"
#include "asup/base/thread.h"

namespace asup::ps {

Crew::Crew(int threads) {
  for (int i = 0; i < threads; ++i)
    threads_.push_back(start_thread("asup update", [this] { run(); }));
}

Crew::~Crew() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Crew::start(std::size_t parts, std::function<void(std::size_t)> work,
                 std::function<void()> done) {
  {
    const std::lock_guard lock(mutex_);
    check(working_ == 0, "a crew was given a job while it works on another");
    parts_ = parts;
    work_ = std::move(work);
    done_ = std::move(done);
    next_ = 0;
    working_ = threads();
    ++job_;
  }
  changed_.notify_all();
}

void Crew::run() {
  std::uint64_t seen = 0;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || job_ != seen; });
      if (job_ == seen) return;
      seen = job_;
    }
    for (std::size_t part = next_++; part < parts_; part = next_++) work_(part);
    std::function<void()> done;
    {
      const std::lock_guard lock(mutex_);
      if (--working_ == 0) done = std::move(done_);
    }
    if (done) done();
  }
}

}  // namespace asup::ps
