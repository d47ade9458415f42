// Stands between two processes of a job, as whoever is on their way can: it records what passes,
// and changes it as it likes.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include "asup/base/fd.h"
#include "asup/net/membership/address.h"

namespace asup::net {

class Proxy {
 public:
  using Piece = std::vector<std::byte>;
  // Of what a connector sends: the place of its first byte on that connection, and the bytes.
  using Change = std::function<void(std::size_t at, Piece& bytes)>;

  explicit Proxy(const std::string& target)
      : target_(resolve(parse_endpoint(target, "target")).front()),
        listener_(listen_on(interface_address("127.0.0.1"), "")),
        thread_([this] { run(); }) {}
  ~Proxy() {
    stopping_ = true;
    thread_.join();
  }

  std::string address() const { return bound_address(listener_.get()).to_string(); }

  void change(Change change) {
    const std::lock_guard lock(mutex_);
    change_ = std::move(change);
  }

  // Whether these bytes have passed, in either direction.
  bool has_seen(std::span<const std::byte> bytes) const {
    const std::lock_guard lock(mutex_);
    const auto in = [&](const Piece& seen) {
      return std::search(seen.begin(), seen.end(), bytes.begin(), bytes.end()) != seen.end();
    };
    return in(there_) || in(back_);
  }
  std::size_t seen() const {
    const std::lock_guard lock(mutex_);
    return there_.size() + back_.size();
  }

 private:
  struct Pair {
    Fd near, far;
    std::size_t passed = 0;  // of the connector's
  };

  void run() {
    while (!stopping_) {
      std::vector<pollfd> fds{{listener_.get(), POLLIN, 0}};
      for (const Pair& pair : pairs_)
        for (const int fd : {pair.near.get(), pair.far.get()}) fds.push_back({fd, POLLIN, 0});
      poll(fds.data(), fds.size(), 20);
      pairs_.remove_if([this](Pair& pair) {
        return !pass(pair.near, pair.far, &pair) || !pass(pair.far, pair.near, nullptr);
      });
      Fd near(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!near) continue;
      Fd far(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (connect(far.get(), target_.get(), target_.length()) == 0)
        pairs_.push_back({std::move(near), std::move(far)});
    }
  }

  // False: the connection has ended.
  bool pass(const Fd& from, const Fd& to, Pair* outward) {
    Piece bytes(1 << 16);
    const ssize_t n = recv(from.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) return true;
    if (n <= 0) return false;
    bytes.resize(static_cast<std::size_t>(n));
    {
      const std::lock_guard lock(mutex_);
      Piece& seen = outward ? there_ : back_;
      seen.insert(seen.end(), bytes.begin(), bytes.end());
      if (outward && change_) change_(outward->passed, bytes);
      if (outward) outward->passed += bytes.size();
    }
    std::span<const std::byte> left(bytes);
    while (!left.empty()) {
      const ssize_t sent = send(to.get(), left.data(), left.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      left = left.subspan(static_cast<std::size_t>(sent));
    }
    return true;
  }

  const SocketAddress target_;
  const Fd listener_;
  std::list<Pair> pairs_;  // the thread's own
  mutable std::mutex mutex_;
  Change change_;       // protected by mutex_
  Piece there_, back_;  // protected by mutex_
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace asup::net
