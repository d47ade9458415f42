#include "asup/net/transport/link_setup.h"

#include <openssl/rand.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <set>
#include <thread>

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/net/membership/address.h"
#include "asup/net/membership/handshake.h"
#include "asup/net/transport/shm/wire.h"
#include "asup/net/transport/tcp/wire.h"

namespace asup::net {
namespace {

constexpr std::string_view kContext = "asup link";
constexpr int kMostUnproven = 64;  // connections that have not proved the key yet

// Said once the key is proved.
struct LinkHello {
  std::uint64_t generation;
  std::int32_t rank;
  std::int32_t reserved = 0;
};

std::pair<sockaddr_un, socklen_t> unix_name(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  check(name.size() + 1 < sizeof address.sun_path, "unix socket name '{}' is too long", name);
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // a leading zero: no file
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

std::string random_name() {
  std::array<unsigned char, 16> bytes;
  check(RAND_bytes(bytes.data(), bytes.size()) == 1, "no random bytes");
  std::string name = "asup-";
  for (const unsigned byte : bytes) name += fmt::format("{:02x}", byte);
  return name;
}

bool transfer_all(int fd, std::span<std::byte> bytes, bool out, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t n = out ? send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL)
                          : recv(fd, bytes.data(), bytes.size(), 0);
    if (n > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(n));
      continue;
    }
    if (n == 0 || (errno != EAGAIN && errno != EINTR)) return false;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd wait{fd, static_cast<short>(out ? POLLOUT : POLLIN), 0};
    if (left <= 0 || poll(&wait, 1, static_cast<int>(left)) == 0) return false;
  }
  return true;
}

Fd connect_unix(const std::string& name) {
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto [address, length] = unix_name(name);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) return Fd();
  return fd;
}

Fd connect_tcp(const std::string& text, Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::seconds>(deadline - Clock::now()).count();
  const timeval limit{std::max<time_t>(left, 1), 0};
  for (const SocketAddress& address : resolve(parse_endpoint(text, "a member's address"))) {
    Fd fd(socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (connect(fd.get(), address.get(), address.length()) == 0) return fd;
  }
  return Fd();
}

// Admits members at the listeners, each on a thread of its own until it has proved the key, so that
// a silent stranger holds nobody up.
class Acceptor {
 public:
  Acceptor(const Roster& roster, int rank, const Key& key, const Listeners& listeners)
      : roster_(roster),
        rank_(rank),
        key_(key),
        listeners_(listeners),
        wires_(roster.members.size()) {
    thread_ = std::thread([this] { run(); });
  }
  ~Acceptor() {
    stopping_ = true;
    thread_.join();
    std::unique_lock lock(mutex_);
    for (const int connection : unproven_) shutdown(connection, SHUT_RDWR);
    changed_.wait(lock, [&] { return identifying_ == 0; });
  }

  // Those admitted so far are moved into `wires`; ranks above ours that have not come by the
  // deadline are returned.
  std::vector<int> collect(std::vector<std::unique_ptr<Wire>>& wires, Deadline deadline,
                           const InVain& in_vain) {
    std::unique_lock lock(mutex_);
    const auto missing = [&] {
      std::vector<int> ranks;
      for (int peer = rank_ + 1; peer < roster_.size(); ++peer)
        if (!wires_[static_cast<std::size_t>(peer)]) ranks.push_back(peer);
      return ranks;
    };
    std::vector<int> ranks;
    while (!(ranks = missing()).empty() && Clock::now() < deadline && !in_vain(ranks))
      changed_.wait_for(lock, std::chrono::milliseconds(20));
    for (std::size_t peer = 0; peer < wires_.size(); ++peer)
      if (wires_[peer]) wires[peer] = std::move(wires_[peer]);
    return ranks;
  }

 private:
  void run() {
    while (!stopping_) {
      std::array<pollfd, 2> listeners{pollfd{listeners_.tcp(), POLLIN, 0},
                                      {listeners_.local(), POLLIN, 0}};
      if (poll(listeners.data(), listeners.size(), 50) <= 0) continue;
      for (const pollfd& listener : listeners)
        if (listener.revents) open(listener.fd);
    }
  }

  void open(int listener) {
    Fd connection(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    if (connection.get() < 0) return;
    const std::lock_guard lock(mutex_);
    if (identifying_ >= kMostUnproven) return;
    ++identifying_;
    unproven_.insert(connection.get());
    std::thread([this, local = listener == listeners_.local(),
                 connection = std::move(connection)]() mutable {
      const int number = connection.get();
      try {
        if (const int peer = identify(connection.get()); peer >= 0)
          admit(peer, std::move(connection), local);
      } catch (const std::exception& error) {
        log().warn("a connection was dropped: {}", error.what());
      }
      const std::lock_guard leaving(mutex_);
      unproven_.erase(number);
      --identifying_;
      changed_.notify_all();
    }).detach();
  }

  // The rank of a connection that proves the key and belongs here, or -1.
  int identify(int connection) {
    const Deadline deadline = after(kHandshakeTimeout);
    const HandshakeResult result = handshake(connection, key_, Side::acceptor, kContext, deadline);
    if (!result.ok()) {
      log().warn("turned away a connection to {}: {}",
                 roster_.members[static_cast<std::size_t>(rank_)].describe(), result.reason);
      return -1;
    }
    std::array<LinkHello, 1> hello;
    if (!transfer_all(connection, std::as_writable_bytes(std::span(hello)), false, deadline))
      return -1;
    const auto [generation, peer, reserved] = hello[0];
    if (generation == roster_.generation && peer > rank_ && peer < roster_.size()) return peer;
    log().warn("turned away member {} of generation {}", peer, generation);
    return -1;
  }

  void admit(int peer, Fd connection, bool local) {
    const int number = connection.get();
    std::unique_ptr<Wire> wire;
    if (local)
      wire = ShmWire::accept(connection.release());
    else
      wire = std::make_unique<TcpWire>(connection.release());
    const std::lock_guard lock(mutex_);
    unproven_.erase(number);  // with the slot: who is collected is not shut down any more
    auto& slot = wires_[static_cast<std::size_t>(peer)];
    if (!slot) slot = std::move(wire);
  }

  const Roster& roster_;
  const int rank_;
  const Key& key_;
  const Listeners& listeners_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int identifying_ = 0;                       // guarded by mutex_
  std::set<int> unproven_;                    // guarded by mutex_
  std::vector<std::unique_ptr<Wire>> wires_;  // guarded by mutex_
};

bool by_memory(const Roster& roster, int a, int b, LinkKind links) {
  const auto& members = roster.members;
  const bool one_host =
      members[static_cast<std::size_t>(a)].host == members[static_cast<std::size_t>(b)].host;
  require(links != LinkKind::shm || one_host,
          "links over shared memory were asked for, but {} and {} are on different hosts",
          members[static_cast<std::size_t>(a)].describe(),
          members[static_cast<std::size_t>(b)].describe());
  // One that links by TCP alone has no unix socket for members of its host.
  return one_host && links != LinkKind::tcp &&
         !members[static_cast<std::size_t>(b)].unix_address.empty();
}

std::unique_ptr<Wire> connect_to(const Member& peer, const Member& self, std::uint64_t generation,
                                 const Key& key, bool memory, Deadline deadline) {
  const std::string own_name = name_member(self.rank, self.server);
  Fd fd = memory ? connect_unix(peer.unix_address) : connect_tcp(peer.tcp_address, deadline);
  if (fd.get() < 0)
    throw PeerLost(fmt::format("{} cannot connect to {} at {}: {}", own_name, peer.describe(),
                               memory ? "its unix socket" : peer.tcp_address,
                               std::strerror(errno)));
  const HandshakeResult result = handshake(fd.get(), key, Side::connector, kContext, deadline);
  if (!result.ok())
    throw JobFailed(
        fmt::format("{} is not admitted by {}: {}", own_name, peer.describe(), result.reason));
  std::array<LinkHello, 1> hello{LinkHello{generation, self.rank}};
  if (!transfer_all(fd.get(), std::as_writable_bytes(std::span(hello)), true, deadline))
    throw JobFailed(fmt::format("{} closed the connection", peer.describe()));
  if (memory) return ShmWire::connect(fd.release());
  return std::make_unique<TcpWire>(fd.release());
}

}  // namespace

Listeners::Listeners(const JoinOptions& options) {
  const SocketAddress address = resolve({listen_host(options), 0}).front();
  tcp_ = listen_on(address, "choose another --interface");
  tcp_address_ = bound_address(tcp_.get()).to_string();
  if (options.links == LinkKind::tcp) return;
  unix_address_ = random_name();
  local_ = Fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto [name, length] = unix_name(unix_address_);
  check(bind(local_.get(), reinterpret_cast<const sockaddr*>(&name), length) == 0 &&
            listen(local_.get(), SOMAXCONN) == 0,
        "cannot listen on a unix socket: {}", std::strerror(errno));
}

std::vector<std::unique_ptr<Wire>> connect_all(const Roster& roster, int rank, const Key& key,
                                               LinkKind links, const Listeners& listeners,
                                               Deadline deadline, const InVain& in_vain) {
  std::vector<std::unique_ptr<Wire>> wires(roster.members.size());
  const Member& self = roster.members[static_cast<std::size_t>(rank)];
  Acceptor keeper(roster, rank, key, listeners);
  for (int peer = 0; peer < rank; ++peer)
    wires[static_cast<std::size_t>(peer)] =
        connect_to(roster.members[static_cast<std::size_t>(peer)], self, roster.generation, key,
                   by_memory(roster, rank, peer, links), deadline);
  const std::vector<int> missing = keeper.collect(wires, deadline, in_vain);
  if (!missing.empty())
    throw PeerLost(fmt::format("no connection from {} to {}{}",
                               name_members(missing, roster.roles()),
                               name_member(rank, self.server),
                               in_vain(missing) ? ": somebody was lost" : " before the deadline"));
  return wires;
}

}  // namespace asup::net
