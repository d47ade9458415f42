#include "asup/net/transport/link_setup.h"

#include <openssl/rand.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <list>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <thread>

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/net/membership/address.h"
#include "asup/net/membership/connect.h"
#include "asup/net/membership/handshake.h"
#include "asup/net/tls/stream.h"
#include "asup/net/transport/shm/wire.h"
#include "asup/net/transport/tcp/wire.h"

namespace asup::net {
namespace {

constexpr std::string_view kContext = "asup link";
constexpr int kMostUnproven = 64;  // connections that have not proved the key yet

// Said once the key is proved; where TLS follows, it is opened for this pair of ranks alone.
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

// Never blocks: where the listener's queue is full, it says so.
Fd connect_unix(const std::string& name, std::string& why) {
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  check(static_cast<bool>(fd), "cannot make a socket: {}", std::strerror(errno));
  const auto [address, length] = unix_name(name);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0) return fd;
  why = std::strerror(errno);
  return Fd();
}

Fd connect_tcp(const std::string& text, Deadline deadline, std::string& why) {
  for (const SocketAddress& address : resolve(parse_endpoint(text, "a member's address")))
    if (Fd fd = try_connect(address, deadline, why)) return fd;
  return Fd();
}

std::string purpose_of(std::uint64_t generation, int from, int to) {
  return fmt::format("asup link, generation {}, rank {} to rank {}", generation, from, to);
}

bool on_one_host(const Roster& roster, int a, int b) {
  return roster.members[static_cast<std::size_t>(a)].host ==
         roster.members[static_cast<std::size_t>(b)].host;
}

// Where the job encrypts what leaves a host, a link between hosts is encrypted or there is none.
TlsMode tls_between(const Roster& roster, int a, int b, TlsMode job) {
  return job == TlsMode::automatic && !on_one_host(roster, a, b) ? TlsMode::on : job;
}

// Who has connected to us and is no member yet.
struct Caller {
  Fd connection;
  bool local;  // by the unix socket
  Handshake handshake;
  Deadline deadline = after(kHandshakeTimeout);
  std::array<std::byte, sizeof(LinkHello)> hello{};
  std::size_t got = 0;  // of the hello
  std::unique_ptr<TlsStream> tls{};
  bool ready = true;  // its socket has news

  bool proved() const { return handshake.finished() && handshake.result().ok(); }
};

// Admits members at the listeners, from a thread that waits for none of them: whoever says nothing
// holds nobody up, and makes room for newer ones.
class Acceptor {
 public:
  Acceptor(const Roster& roster, int rank, const Key& key, TlsMode tls, const Listeners& listeners)
      : roster_(roster),
        rank_(rank),
        key_(key),
        tls_(tls),
        listeners_(listeners),
        wires_(roster.members.size()) {
    thread_ = std::thread([this] {
      while (!stopping_) turn();
    });
  }
  ~Acceptor() {
    stopping_ = true;
    thread_.join();
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
    while (!(ranks = missing()).empty() && Clock::now() < deadline && !in_vain(ranks, false))
      changed_.wait_for(lock, std::chrono::milliseconds(20));
    for (std::size_t peer = 0; peer < wires_.size(); ++peer)
      if (wires_[peer]) wires[peer] = std::move(wires_[peer]);
    return ranks;
  }

 private:
  void turn() {
    wait();
    for (auto caller = callers_.begin(); caller != callers_.end();)
      caller = stays(*caller) ? std::next(caller) : callers_.erase(caller);
    for (const int listener : {listeners_.tcp(), listeners_.local()}) accept_some(listener);
  }

  void wait() {
    std::vector<pollfd> fds;
    for (const Caller& caller : callers_) fds.push_back({caller.connection.get(), POLLIN, 0});
    if (!std::exchange(out_of_descriptors_, false))
      for (const int listener : {listeners_.tcp(), listeners_.local()})
        fds.push_back({listener, POLLIN, 0});
    poll(fds.data(), fds.size(), 50);
    auto fd = fds.begin();
    for (Caller& caller : callers_) caller.ready = (fd++)->revents != 0;
  }

  void accept_some(int listener) {
    for (int i = 0; listener >= 0 && i < kMostUnproven; ++i) {
      Fd connection(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!connection) {
        out_of_descriptors_ = out_of_descriptors_ || errno == EMFILE || errno == ENFILE;
        return;
      }
      make_room();
      const bool local = listener == listeners_.local();
      const TlsPolicy tls = local ? TlsPolicy{} : TlsPolicy{tls_, leaves_host(connection.get())};
      callers_.push_back(
          {std::move(connection), local, Handshake(Side::acceptor, key_, kContext, tls)});
    }
  }

  // The oldest goes that has not proved the key: members do so in a moment, and come again.
  void make_room() {
    const auto unproven = [](const Caller& caller) { return !caller.proved(); };
    if (std::ranges::count_if(callers_, unproven) < kMostUnproven + roster_.size()) return;
    callers_.erase(std::ranges::find_if(callers_, unproven));
  }

  // False: it is admitted, or it never will be.
  bool stays(Caller& caller) {
    try {
      if (caller.ready) return serve(caller);
      if (Clock::now() < caller.deadline) return true;
      turn_away("it did not say who it is in time");
    } catch (const std::exception& error) {
      turn_away(error.what());
    }
    return false;
  }

  bool serve(Caller& caller) {
    if (caller.tls) return encrypt(caller);
    if (caller.got == caller.hello.size()) return admit(caller), false;  // its rings have come
    while (caller.got < caller.hello.size()) {
      const auto there = receive(caller);
      if (!there) return true;
      require(!there->empty(), "it closed the connection");
      if (!caller.handshake.finished())
        take_handshake(caller, *there);
      else
        caller.got += there->size();
    }
    const int peer = rank_of(caller);  // one of ours, or it goes now
    if (caller.local) return true;
    const auto& secret = caller.handshake.result().secret;
    const TlsMode due = tls_between(roster_, peer, rank_, tls_);
    require(TlsPolicy{due}.allows(secret.has_value()), "its link is due under --tls {}",
            to_text(due));
    if (!secret) return admit(caller), false;
    caller.tls = std::make_unique<TlsStream>(caller.connection.get(), Side::acceptor, *secret,
                                             purpose_of(roster_.generation, peer, rank_));
    return encrypt(caller);
  }

  // What it said has to be proved along with the secret.
  bool encrypt(Caller& caller) {
    if (caller.tls->establish()) return admit(caller), false;
    require(!caller.tls->closed(), "rank {}: {}", rank_of(caller), caller.tls->describe_end());
    return true;
  }

  // What has come, of the handshake or else of the hello, and not a byte more; none at the end.
  std::optional<std::span<const std::byte>> receive(Caller& caller) {
    const bool shakes = !caller.handshake.finished();
    const std::span<std::byte> into =
        shakes ? std::span(buffer_).first(std::min(buffer_.size(), caller.handshake.wanted()))
               : std::span(caller.hello).subspan(caller.got);
    const ssize_t n = recv(caller.connection.get(), into.data(), into.size(), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
    return into.first(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  }

  void take_handshake(Caller& caller, std::span<const std::byte> bytes) {
    caller.handshake.feed(bytes);
    // Far below what a socket takes at once.
    const auto answer = caller.handshake.take_output();
    if (!answer.empty())
      send(caller.connection.get(), answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (caller.handshake.finished())
      require(caller.handshake.result().ok(), "{}", caller.handshake.result().reason);
  }

  int rank_of(const Caller& caller) const {
    LinkHello hello;
    std::memcpy(&hello, caller.hello.data(), sizeof hello);
    require(
        hello.generation == roster_.generation && hello.rank > rank_ && hello.rank < roster_.size(),
        "it says that it is rank {} of generation {}", hello.rank, hello.generation);
    return hello.rank;
  }

  void admit(Caller& caller) {
    const auto peer = static_cast<std::size_t>(rank_of(caller));
    const int connection = caller.connection.release();
    std::unique_ptr<Wire> wire;
    if (caller.local)
      wire = ShmWire::accept(connection);
    else
      wire = std::make_unique<TcpWire>(connection, std::move(caller.tls));
    const std::lock_guard lock(mutex_);
    if (!wires_[peer]) wires_[peer] = std::move(wire);
    changed_.notify_all();
  }

  void turn_away(const std::string& why) const {
    log().warn("turned away a connection to {}: {}",
               roster_.members[static_cast<std::size_t>(rank_)].describe(), why);
  }

  const Roster& roster_;
  const int rank_;
  const Key& key_;
  const TlsMode tls_;
  const Listeners& listeners_;

  // The thread's own.
  std::list<Caller> callers_;  // the oldest first
  std::array<std::byte, 64> buffer_{};
  bool out_of_descriptors_ = false;

  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Wire>> wires_;  // guarded by mutex_
  std::thread thread_;
};

bool by_memory(const Roster& roster, int a, int b, LinkKind links) {
  const auto& members = roster.members;
  const bool one_host = on_one_host(roster, a, b);
  require(links != LinkKind::shm || one_host,
          "links over shared memory were asked for, but {} and {} are on different hosts",
          members[static_cast<std::size_t>(a)].describe(),
          members[static_cast<std::size_t>(b)].describe());
  // One that links by TCP alone has no unix socket for members of its host.
  return one_host && links != LinkKind::tcp &&
         !members[static_cast<std::size_t>(b)].unix_address.empty();
}

// Makes the links to ranks below ours.
class Connector {
 public:
  Connector(const Roster& roster, int rank, const Key& key, TlsMode tls, Deadline deadline,
            const InVain& in_vain)
      : roster_(roster),
        self_(roster.members[static_cast<std::size_t>(rank)]),
        key_(key),
        tls_(tls),
        deadline_(deadline),
        in_vain_(in_vain) {}

  // Again and again until the deadline: strangers may have filled the queue, or the places.
  std::unique_ptr<Wire> connect(const Member& peer, bool memory) {
    std::chrono::milliseconds pause(5);
    why_ = "no time was left to try";
    while (Clock::now() < deadline_) {
      refused_ = false;
      if (auto wire = attempt(peer, memory)) return wire;
      if (in_vain_({peer.rank}, refused_)) break;
      std::this_thread::sleep_until(std::min<Deadline>(deadline_, Clock::now() + pause));
      pause = std::min(2 * pause, std::chrono::milliseconds(200));
    }
    throw PeerLost(fmt::format("{} cannot connect to {} at {}: {}",
                               name_member(self_.rank, self_.server), peer.describe(),
                               memory ? "its unix socket" : peer.tcp_address, why_));
  }

 private:
  // Nothing, with the reason in why_, where another attempt may do better.
  std::unique_ptr<Wire> attempt(const Member& peer, bool memory) {
    const Deadline patience = std::min<Deadline>(deadline_, after(kHandshakeTimeout));
    Fd fd = memory ? connect_unix(peer.unix_address, why_)
                   : connect_tcp(peer.tcp_address, patience, why_);
    refused_ = !fd;
    if (!fd) return nullptr;
    const HandshakeResult result = handshake(fd.get(), key_, Side::connector, kContext, patience,
                                             memory ? TlsPolicy{} : policy_towards(peer));
    why_ = result.reason;
    using Kind = HandshakeResult::Kind;
    if (result.kind == Kind::silent || result.kind == Kind::closed) return nullptr;
    if (!result.ok())
      throw JobFailed(fmt::format("{} is not admitted by {}: {}",
                                  name_member(self_.rank, self_.server), peer.describe(),
                                  result.reason));
    const LinkHello hello{roster_.generation, self_.rank};
    why_ = "it closed the connection";
    if (send(fd.get(), &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello) return nullptr;
    if (memory) return ShmWire::connect(fd.release());
    if (!result.secret) return std::make_unique<TcpWire>(fd.release());
    auto tls = std::make_unique<TlsStream>(fd.get(), Side::connector, *result.secret,
                                           purpose_of(roster_.generation, self_.rank, peer.rank));
    if (!establish(*tls, fd.get(), patience)) return nullptr;
    return std::make_unique<TcpWire>(fd.release(), std::move(tls));
  }

  bool establish(TlsStream& tls, int fd, Deadline deadline) {
    why_ = "it did not end the TLS handshake in time";
    while (!tls.establish()) {
      if (tls.closed()) return why_ = tls.describe_end(), false;
      const auto events = static_cast<short>(POLLIN | (tls.has_unsent() ? POLLOUT : 0));
      if (!wait_for(fd, events, deadline)) return false;
    }
    return true;
  }

  TlsPolicy policy_towards(const Member& peer) const {
    return {tls_between(roster_, self_.rank, peer.rank, tls_),
            !on_one_host(roster_, self_.rank, peer.rank)};
  }

  const Roster& roster_;
  const Member& self_;
  const Key& key_;
  const TlsMode tls_;
  const Deadline deadline_;
  const InVain& in_vain_;
  std::string why_;
  bool refused_ = false;  // nobody took the last attempt's connection
};

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
                                               LinkKind links, TlsMode tls,
                                               const Listeners& listeners, Deadline deadline,
                                               const InVain& in_vain) {
  std::vector<std::unique_ptr<Wire>> wires(roster.members.size());
  const Member& self = roster.members[static_cast<std::size_t>(rank)];
  Acceptor keeper(roster, rank, key, tls, listeners);
  Connector connector(roster, rank, key, tls, deadline, in_vain);
  for (int peer = 0; peer < rank; ++peer)
    wires[static_cast<std::size_t>(peer)] = connector.connect(
        roster.members[static_cast<std::size_t>(peer)], by_memory(roster, rank, peer, links));
  const std::vector<int> missing = keeper.collect(wires, deadline, in_vain);
  if (!missing.empty())
    throw PeerLost(
        fmt::format("no connection from {} to {}{}", name_members(missing, roster.roles()),
                    name_member(rank, self.server),
                    in_vain(missing, false) ? ": somebody was lost" : " before the deadline"));
  return wires;
}

}  // namespace asup::net
