#include "asup/launch/poll_loop.h"

#include <sys/wait.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace asup::launch {

void PollLoop::watch(int fd, short events, std::function<void()> handler) {
  watches_[fd] = {events, std::move(handler)};
}

void PollLoop::set_events(int fd, short events) {
  if (const auto found = watches_.find(fd); found != watches_.end()) found->second.events = events;
}

void PollLoop::forget(int fd) { watches_.erase(fd); }

void PollLoop::watch_child(pid_t pid, std::function<void(int)> handler) {
  children_[pid] = std::move(handler);
}

void PollLoop::reap() {
  int status = 0;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    const auto found = children_.find(pid);
    if (found == children_.end()) continue;
    const auto handler = std::move(found->second);
    children_.erase(found);
    handler(status);
  }
}

void PollLoop::run_once(Deadline deadline) {
  std::vector<pollfd> fds;
  for (const auto& [fd, watch] : watches_) fds.push_back({fd, watch.events, 0});
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  const auto wait = std::clamp<long long>(left, 0, 60'000);
  if (poll(fds.data(), fds.size(), static_cast<int>(wait)) <= 0) return;
  for (const pollfd& fd : fds) {
    if (fd.revents == 0) continue;
    // A handler may have taken this one away in the meantime.
    const auto found = watches_.find(fd.fd);
    if (found == watches_.end()) continue;
    const auto handler = found->second.handler;
    handler();
  }
}

}  // namespace asup::launch
