#include "asup/net/membership/key_exchange.h"

#include <openssl/evp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <thread>

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/net/membership/connect.h"

namespace asup::net {
namespace {

constexpr std::size_t kMostAddress = 300;

struct UnixAddress {
  sockaddr_un address{};
  socklen_t length;

  explicit UnixAddress(const std::string& name) {
    check(name.size() + 1 < sizeof address.sun_path, "socket name '{}' is too long", name);
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

// Not connected where nobody listens, or too many wait to be let in: never blocks.
Fd connect_unix(const std::string& name) {
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  check(static_cast<bool>(fd), "socket: {}", std::strerror(errno));
  const UnixAddress address(name);
  return connect(fd.get(), address.get(), address.length) == 0 ? std::move(fd) : Fd();
}

uid_t peer_user(int fd) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  check(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0, "SO_PEERCRED: {}",
        std::strerror(errno));
  return credentials.uid;
}

// Reads until the other side closes, at most `limit` bytes; nothing where that takes too long.
std::optional<std::string> read_all(int fd, std::size_t limit) {
  const Deadline deadline = after(Seconds(5));
  std::string bytes(limit, '\0');
  std::size_t got = 0;
  while (wait_for(fd, POLLIN, deadline)) {
    const ssize_t n = recv(fd, bytes.data() + got, limit - got, 0);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) return std::nullopt;
    got += static_cast<std::size_t>(n);
    if (n > 0 && got < limit) continue;
    bytes.resize(got);
    return bytes;
  }
  return std::nullopt;
}

}  // namespace

std::string key_socket_name(const std::string& job) {
  const std::string text = fmt::format("asup key socket 1 {} {}", geteuid(), job);
  unsigned char digest[EVP_MAX_MD_SIZE];
  const int done = EVP_Digest(text.data(), text.size(), digest, nullptr, EVP_sha256(), nullptr);
  check(done == 1, "SHA-256 failed in OpenSSL");
  std::string name = "asup-key-";
  for (int i = 0; i < 16; ++i) name += fmt::format("{:02x}", digest[i]);
  return name;
}

Fd open_key_socket(const std::string& name) {
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  check(static_cast<bool>(fd), "socket: {}", std::strerror(errno));
  const UnixAddress address(name);
  const bool listening =
      bind(fd.get(), address.get(), address.length) == 0 && listen(fd.get(), SOMAXCONN) == 0;
  require(listening,
          "another job with the same launcher id and port runs on this host ({}): give this one "
          "another port (torchrun --master-port), or set ASUP_KEY_FILE and ASUP_COORDINATOR",
          std::strerror(errno));
  return fd;
}

void serve_key(int listener, const KeyOffer& word) {
  const Fd caller(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!caller) return;
  const uid_t user = peer_user(caller.get());
  if (user != geteuid()) {
    log().warn("user {} asked for this job's key and got nothing", user);
    return;
  }
  std::string bytes(reinterpret_cast<const char*>(word.key.data()), word.key.size());
  bytes += word.coordinator;
  // Far below what a socket takes at once, so one call sends all of it.
  if (send(caller.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0)
    log().info("a rank went away before it had the job's key: {}", std::strerror(errno));
}

std::optional<KeyOffer> try_key_socket(const std::string& name) {
  const Fd fd = connect_unix(name);
  if (!fd) return std::nullopt;
  const uid_t user = peer_user(fd.get());
  if (user != geteuid())
    throw JobFailed(fmt::format(
        "user {} holds the socket that hands out this job's key; set ASUP_KEY_FILE instead", user));
  const auto bytes = read_all(fd.get(), Key{}.size() + kMostAddress);
  KeyOffer word;
  if (!bytes || bytes->size() <= word.key.size()) return std::nullopt;
  std::memcpy(word.key.data(), bytes->data(), word.key.size());
  word.coordinator = bytes->substr(word.key.size());
  return word;
}

KeyOffer ask_for_key(const std::string& name, Deadline deadline) {
  while (Clock::now() < deadline) {
    if (auto word = try_key_socket(name)) return *std::move(word);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  throw JobFailed("rank 0 did not hand out this job's key in time: is it running on this host?");
}

}  // namespace asup::net
