// Who may touch a mesh, and when.
//
// One thread at a time has the lock. A loop thread of its own takes it whenever there is work; a
// caller that waits for a call takes it for that long and moves the mesh itself, since handing over
// costs more than a small all-reduce. It gives way to whoever else wants the lock, and then stands
// by until nobody moves the mesh or what it waits for has come. The loop thread never spins: it
// would steal the core from the thread that computes. docs/threads.md tells the whole story.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "asup/base/clock.h"

namespace asup::net {

// How long a caller that waits spins, then looks between yields, before it sleeps. Waking up takes
// longer than the least spin: two ranks that once sleep would wait for each other's waking for ever
// after, so a sleep that was short doubles the time awake, up to the most, and a long one sets it
// back.
struct SpinPolicy {
  std::chrono::microseconds spin{20};
  std::chrono::microseconds most_spin{200};
  std::chrono::microseconds yield{0};

  // For `ranks` processes that share this host: spinning only where each has a core.
  // `system_calls`: a look at the links takes some.
  static SpinPolicy for_host(int ranks, bool system_calls);
};

class Loop {
 public:
  // What the loop keeps moving; called under the lock.
  class Body {
   public:
    virtual ~Body() = default;
    virtual bool progress() = 0;  // true when anything moved
    virtual bool busy() = 0;      // something is under way
    virtual bool arm() = 0;       // before sleep: true when sleep is right
    virtual void disarm() = 0;
    virtual void on_ready(int fd) = 0;  // a watched descriptor woke us
    // progress() or a posted action threw this: whoever moves the mesh cannot answer for it.
    virtual void failed(const std::string& why) = 0;
  };

  explicit Loop(Body& body);
  ~Loop();  // stops
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void start();
  void stop();
  void set_spin_policy(SpinPolicy policy) {
    spin_policy_ = policy;
    spin_ = policy.spin;
  }

  // From any thread: runs `action` under the lock, soon. Where it throws, the body is told.
  void post(std::function<void()> action);

  // Needs the lock, and gives way to others that want it: they may do anything meanwhile. Moves the
  // mesh until `done` or the deadline; says which came first. Another thread that moves the mesh
  // may ask `done`, under the lock too.
  bool drive(const std::function<bool()>& done, Deadline deadline);

  // Needs the lock. When whoever moves the mesh last looked at the clock: some microseconds ago.
  Clock::time_point now() const { return now_; }

  // Needs the lock.
  void watch(int fd);
  void unwatch(int fd);
  // Something of the mesh has no descriptor: who sleeps looks again by the clock.
  void sleep_in_naps() { naps_ = true; }
  // Of something in the mesh only its descriptor has news: it is asked by who does not sleep, too.
  void ask_descriptors() { asks_ = true; }
  bool run_posted();  // true when there was anything

 private:
  friend class MeshLock;

  // A caller that drives and has given way. It sleeps until it is called.
  struct Standby {
    const std::function<bool()>& done;
    const Deadline deadline;
    bool called = false;
    std::condition_variable call{};

    bool is_over(Clock::time_point now) const;
  };

  void run();
  bool is_to_give_way();
  void stand_by(const std::function<bool()>& done, Deadline deadline);
  void call(Standby& one);
  bool call_next();
  Deadline first_deadline(Deadline own) const;
  bool progress();
  template <typename Action>
  void guarded(const Action& action);
  void wake();
  bool wait_for_wake(std::chrono::milliseconds at_most);
  void sleep(Deadline until);
  bool look_at_descriptors(std::chrono::milliseconds at_most);
  void nap();
  void learn_from_sleep(Clock::duration slept);

  Body& body_;
  SpinPolicy spin_policy_;
  std::chrono::microseconds spin_ = spin_policy_.spin;  // under the lock: what it is at present
  Clock::time_point now_ = Clock::now();                // under the lock
  bool naps_ = false;                                   // under the lock
  bool asks_ = false;                                   // under the lock
  unsigned moves_ = 0;                                  // under the lock
  std::chrono::microseconds nap_{50};                   // under the lock: the next one
  int epoll_ = -1;
  int event_ = -1;
  std::thread thread_;
  std::atomic<bool> stopping_{false};
  std::atomic<int> callers_{0};      // wait for the lock
  std::atomic<bool> driven_{false};  // a caller had the lock lately: the loop thread stays away

  std::mutex turn_;                    // the lock
  std::vector<Standby*> standing_by_;  // under the lock: those not called yet
  int called_ = 0;                     // under the lock: those that were, and have yet to take it

  std::mutex posted_mutex_;
  std::vector<std::function<void()>> posted_;  // guarded by posted_mutex_
  std::atomic<bool> has_posted_{false};
};

// Holds the lock, the right to touch the mesh, for a scope.
class MeshLock {
 public:
  explicit MeshLock(Loop& loop);
  ~MeshLock();
  MeshLock(const MeshLock&) = delete;
  MeshLock& operator=(const MeshLock&) = delete;

 private:
  Loop& loop_;
};

}  // namespace asup::net
