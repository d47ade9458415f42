#include "asup/net/transport/loop.h"

#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "asup/base/error.h"
#include "asup/base/thread.h"

namespace asup::net {
namespace {

using std::chrono::milliseconds;

// A caller that had the lock is likely to want it again; the loop thread looks this much later.
constexpr milliseconds kStayAway{5};

// Where nothing wakes a sleeper, it looks again after a nap, which grows while nothing happens:
// from what a wake-up takes anyway to what costs an idle process a thousandth of a core or so.
constexpr std::chrono::microseconds kLeastNap{50}, kMostNap{1000};

// While it spins, a caller looks at the links so often before it looks at the clock, which takes as
// long.
constexpr int kLooksAtLinks = 16;

// While some links move, those of which only a descriptor has news are looked after this often.
constexpr unsigned kMovesBetweenLooks = 8;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

}  // namespace

SpinPolicy SpinPolicy::for_host(int ranks, bool system_calls) {
  if (ranks <= usable_cores()) return {};
  using std::chrono::microseconds;
  return {microseconds(0), microseconds(0), microseconds(system_calls ? 50 : 200)};
}

Loop::Loop(Body& body) : body_(body) {
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  event_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  check(epoll_ >= 0 && event_ >= 0, "cannot make an event loop: {}", std::strerror(errno));
  watch(event_);
}

Loop::~Loop() {
  stop();
  close(event_);
  close(epoll_);
}

void Loop::start() {
  thread_ = std::thread([this] { run(); });
}

void Loop::stop() {
  if (!thread_.joinable()) return;
  stopping_ = true;
  wake();
  thread_.join();
}

void Loop::post(std::function<void()> action) {
  {
    const std::lock_guard lock(posted_mutex_);
    posted_.push_back(std::move(action));
    if (has_posted_.exchange(true, std::memory_order_acq_rel)) return;  // who was first wakes
  }
  wake();
}

bool Loop::run_posted() {
  if (!has_posted_.load(std::memory_order_acquire)) return false;
  std::vector<std::function<void()>> actions;
  {
    const std::lock_guard lock(posted_mutex_);
    actions.swap(posted_);
    has_posted_.store(false, std::memory_order_relaxed);
  }
  for (auto& action : actions) guarded(action);
  return true;
}

MeshLock::MeshLock(Loop& loop) : loop_(loop) {
  loop_.driven_.store(true, std::memory_order_relaxed);
  if (loop_.turn_.try_lock()) return;
  loop_.callers_.fetch_add(1);
  loop_.wake();
  loop_.turn_.lock();
  loop_.callers_.fetch_sub(1);
}

MeshLock::~MeshLock() {
  const bool busy = loop_.body_.busy() || loop_.has_posted_.load(std::memory_order_acquire);
  const bool moved_on = loop_.call_next();
  loop_.turn_.unlock();
  if (busy && !moved_on) loop_.wake();
}

bool Loop::drive(const std::function<bool()>& done, Deadline deadline) {
  bool idle = false;
  Clock::time_point idle_since;
  for (int looks = 0;;) {
    const bool moved = progress();
    if (done()) return true;
    if (is_to_give_way()) {
      stand_by(done, deadline);
      now_ = Clock::now();
      if (now_ >= deadline) return done();
      idle = false;
      looks = 0;
      continue;
    }
    if (moved) {
      idle = false;
      looks = 0;
      continue;
    }
    if (asks_ && look_at_descriptors(milliseconds(0))) continue;
    if (looks > 0) {
      --looks;
      relax();
      continue;
    }
    now_ = Clock::now();
    if (now_ >= deadline) return false;
    if (!idle) idle_since = now_;
    idle = true;
    const auto waited = now_ - idle_since;
    if (waited < std::min(spin_, spin_policy_.spin)) {
      looks = kLooksAtLinks;
    } else if (waited < spin_ + spin_policy_.yield) {
      sched_yield();  // whom we wait for may wait for this core
    } else {
      sleep(first_deadline(deadline));
      const auto slept_from = std::exchange(now_, Clock::now());
      learn_from_sleep(now_ - slept_from);
    }
  }
}

// What it throws, its own thread is to hear.
bool Loop::Standby::is_over(Clock::time_point now) const {
  try {
    return now >= deadline || done();
  } catch (const std::exception&) {
    return true;
  }
}

// To who wants the lock for the first time, or again: it is over for one of those who stand by.
bool Loop::is_to_give_way() {
  const auto over = std::ranges::find_if(
      standing_by_, [this](const Standby* each) { return each->is_over(now_); });
  if (over != standing_by_.end()) call(**over);
  return callers_.load(std::memory_order_relaxed) > 0;
}

void Loop::stand_by(const std::function<bool()>& done, Deadline deadline) {
  Standby self{done, deadline};
  standing_by_.push_back(&self);
  std::unique_lock turn(turn_, std::adopt_lock);
  self.call.wait(turn, [&] { return self.called; });
  turn.release();
  --called_;
  callers_.fetch_sub(1);
}

void Loop::call(Standby& one) {
  std::erase(standing_by_, &one);
  ++called_;
  callers_.fetch_add(1);
  one.called = true;
  one.call.notify_one();
}

// The mesh is to be moved on by one of those who stand by, if there are any; says whether. One that
// has been called calls the next when it lets go of the lock.
bool Loop::call_next() {
  if (called_ == 0 && !standing_by_.empty()) call(*standing_by_.front());
  return called_ > 0;
}

Deadline Loop::first_deadline(Deadline own) const {
  for (const Standby* each : standing_by_) own = std::min(own, each->deadline);
  return own;
}

void Loop::learn_from_sleep(Clock::duration slept) {
  constexpr std::chrono::microseconds kShort{500};
  spin_ = slept < kShort ? std::min(spin_policy_.most_spin, 2 * spin_) : spin_policy_.spin;
}

void Loop::watch(int fd) {
  epoll_event event{};
  // Edges suffice: we sleep only after every read and every blocked write said "nothing more now".
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.fd = fd;
  check(epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl: {}", std::strerror(errno));
}

void Loop::unwatch(int fd) { epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr); }

void Loop::run() {
  while (!stopping_) {
    if (driven_.exchange(false, std::memory_order_relaxed) && !wait_for_wake(kStayAway)) continue;
    const std::lock_guard turn(turn_);
    while (!stopping_ && callers_.load() == 0) {
      now_ = Clock::now();
      if (!progress()) sleep(now_ + milliseconds(100));
    }
  }
}

template <typename Action>
void Loop::guarded(const Action& action) {
  try {
    action();
  } catch (const std::exception& error) {
    body_.failed(reason_of(error));
  }
}

bool Loop::progress() {
  bool moved = true;
  guarded([&] { moved = body_.progress(); });
  if (!moved) return false;
  nap_ = kLeastNap;
  if (asks_ && ++moves_ % kMovesBetweenLooks == 0) look_at_descriptors(milliseconds(0));
  return true;
}

void Loop::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto n = write(event_, &one, sizeof one);
}

bool Loop::wait_for_wake(milliseconds at_most) {
  pollfd event{event_, POLLIN, 0};
  return poll(&event, 1, static_cast<int>(at_most.count())) > 0;
}

// Ends early when a descriptor is ready. epoll_wait knows milliseconds only.
void Loop::nap() {
  const timespec time{0, std::chrono::nanoseconds(nap_).count()};
  pollfd ready{epoll_, POLLIN, 0};
  ppoll(&ready, 1, &time, nullptr);
  nap_ = std::min(2 * nap_, kMostNap);
}

void Loop::sleep(Deadline until) {
  if (!body_.arm() || has_posted_.load(std::memory_order_acquire)) {
    body_.disarm();
    return;
  }
  if (naps_) nap();
  const auto left = std::chrono::ceil<milliseconds>(until - Clock::now());
  look_at_descriptors(std::clamp(left, milliseconds(0), milliseconds(naps_ ? 0 : 100)));
  body_.disarm();
}

// Says whether any had news.
bool Loop::look_at_descriptors(milliseconds at_most) {
  std::array<epoll_event, 16> events;
  const int n = epoll_wait(epoll_, events.data(), events.size(), static_cast<int>(at_most.count()));
  for (int i = 0; i < n; ++i) {
    const int fd = events[static_cast<std::size_t>(i)].data.fd;
    if (fd != event_) {
      body_.on_ready(fd);
      continue;
    }
    std::uint64_t count = 0;
    [[maybe_unused]] const auto got = read(event_, &count, sizeof count);
  }
  return n > 0;
}

}  // namespace asup::net
