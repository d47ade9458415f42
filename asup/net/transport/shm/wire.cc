#include "asup/net/transport/shm/wire.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "asup/base/error.h"
#include "asup/base/out_of_memory.h"

namespace asup::net {
namespace {

using Record = ShmRecord;

// Regions that a peer may have offered and not withdrawn: each is a mapping, of which the kernel
// gives a process 65,530.
constexpr std::size_t kMostRegions = 16 * 1024;

// Read in one go, so that a peer that writes without end does not hold the others up: more than a
// socket holds.
constexpr int kMostRecords = 4096;

bool send_record(int socket, const Record& record, int fd = -1) {
  iovec piece{const_cast<Record*>(&record), sizeof record};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof record;
}

struct Received {
  Record record;
  Fd fd;
};
enum class Ended { nothing_there, closed, cut, crowded, no_room };

// One record, or why there is none. A descriptor comes with the first byte of its record. The
// kernel closes those that there is no room for: others beside it, or all where this process has
// too many.
std::optional<Received> receive_record(int socket, Ended& ended) {
  Received received;
  iovec piece{&received.record, sizeof received.record};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  message.msg_control = control;
  message.msg_controllen = CMSG_LEN(sizeof(int));
  const ssize_t n = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
    ended = Ended::nothing_there;
    return std::nullopt;
  }
  if (const cmsghdr* header = n > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
      header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
      header->cmsg_len == CMSG_LEN(sizeof(int))) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
    received.fd.reset(fd);
  }
  if (n != sizeof received.record) {  // records are written whole
    ended = n > 0 ? Ended::cut : Ended::closed;
    return std::nullopt;
  }
  if (message.msg_flags & MSG_CTRUNC) {
    ended = received.fd ? Ended::crowded : Ended::no_room;
    return std::nullopt;
  }
  return received;
}

std::optional<pid_t> pid_of_peer(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  const bool known = getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0;
  return known && peer.pid > 0 ? std::optional(peer.pid) : std::nullopt;
}

// Refers to that process for good, whoever gets its number later.
Fd process_of_peer(int socket) {
  const auto pid = pid_of_peer(socket);
  if (!pid || *pid == getpid()) return {};
  Fd process(static_cast<int>(syscall(SYS_pidfd_open, *pid, 0)));
  std::byte next{};
  const bool has_ended = recv(socket, &next, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
  return has_ended ? Fd() : std::move(process);
}

[[noreturn]] void no_room() {
  throw OutOfMemory(
      "this process may open no more files, and needs one for a moment for memory that a process "
      "beside it shares: raise its limit (ulimit -n)");
}

}  // namespace

std::unique_ptr<ShmWire> ShmWire::connect(int socket) {
  Fd owned(socket);
  Region rings = Region::make(2 * kRingBytes);
  check(send_record(socket, {Record::Kind::rings, 0, rings.bytes().size()}, rings.fd()),
        "cannot pass shared memory to a peer: {}", std::strerror(errno));
  rings.close_fd();
  return std::unique_ptr<ShmWire>(new ShmWire(owned.release(), std::move(rings), true));
}

std::unique_ptr<ShmWire> ShmWire::accept(int socket) {
  Fd owned(socket);
  pollfd wait{socket, POLLIN, 0};
  poll(&wait, 1, 5000);
  Ended ended{};
  auto received = receive_record(socket, ended);
  if (ended == Ended::no_room) no_room();
  check(received && received->record.kind == Record::Kind::rings && received->fd &&
            received->record.bytes == 2 * kRingBytes,
        "a peer on this host did not offer its rings");
  Region rings = Region::map(std::move(received->fd), received->record.bytes);
  return std::unique_ptr<ShmWire>(new ShmWire(owned.release(), std::move(rings), false));
}

ShmWire::ShmWire(int socket, Region rings, bool connected)
    : RingWire(rings.bytes().data() + (connected ? 0 : kRingBytes),
               rings.bytes().data() + (connected ? kRingBytes : 0)),
      socket_(socket),
      process_(process_of_peer(socket)),
      rings_(std::move(rings)) {}

bool ShmWire::end_peer(Deadline deadline) {
  if (!process_) return pid_of_peer(socket_) == getpid();  // a thread of a test's
  syscall(SYS_pidfd_send_signal, process_.get(), SIGKILL, nullptr, 0);
  pollfd ended{process_.get(), POLLIN, 0};
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  return poll(&ended, 1, static_cast<int>(std::max<long>(left.count(), 0))) > 0;
}

ShmWire::~ShmWire() { close(socket_); }

void ShmWire::end_writing() { shutdown(socket_, SHUT_WR); }

// A full socket means that the peer has wake-ups waiting already.
void ShmWire::wake_peer() { send_record(socket_, {Record::Kind::wake, 0, 0}); }

void ShmWire::on_fd_ready() {
  Ended ended = Ended::nothing_there;
  for (int i = 0; i < kMostRecords && breach_.empty(); ++i) {
    auto received = receive_record(socket_, ended);
    if (!received) break;
    breach_ = take(received->record, std::move(received->fd));
  }
  if (ended == Ended::cut) breach_ = "it sent a part of a record";
  if (ended == Ended::crowded) breach_ = "it passed more than one descriptor at once";
  closed_ = closed_ || ended == Ended::closed || ended == Ended::no_room || !breach_.empty();
  if (ended == Ended::no_room) no_room();
}

std::string ShmWire::take(const Record& record, Fd fd) {
  switch (record.kind) {
    case Record::Kind::wake:
      return fd ? "it passed a descriptor with a wake-up" : "";
    case Record::Kind::withdrawn:
      regions_.erase(record.region);
      return fd ? "it passed a descriptor with what it withdrew" : "";
    case Record::Kind::region:
      break;
    default:
      return fmt::format("it sent a record of kind {}", static_cast<std::uint32_t>(record.kind));
  }
  if (!fd) return fmt::format("it offered region {} without its memory", record.region);
  if (record.region == 0 || regions_.contains(record.region))
    return fmt::format("it offered region {} twice", record.region);
  if (regions_.size() == kMostRegions)
    return fmt::format("it offered more than {} regions", kMostRegions);
  try {
    regions_.emplace(record.region,
                     std::make_shared<const Region>(Region::map(std::move(fd), record.bytes)));
  } catch (const std::exception& error) {
    if (is_out_of_memory(error)) {  // no breach of the peer's
      closed_ = true;
      throw;
    }
    return fmt::format("region {} of its memory: {}", record.region, error.what());
  }
  return "";
}

void ShmWire::withdraw(std::uint32_t id) { tell({Record::Kind::withdrawn, id, 0}, -1); }

void ShmWire::offer(std::uint32_t id, const std::shared_ptr<const Region>& region) {
  tell({Record::Kind::region, id, region->bytes().size()}, region->fd());
}

// The socket may be full: of wake-ups, for a peer that is stopped, or of records, for one that is
// too busy to look. What does not fit waits, and with it the bytes that are written after it.
void ShmWire::tell(const Record& record, int fd) {
  on_fd_ready();  // ranks offer their memory together: each makes room for the other
  if (untold_.empty() && (send_record(socket_, record, fd) || errno != EAGAIN)) return;
  untold_.push_back({record, fd < 0 ? Fd() : Fd(fcntl(fd, F_DUPFD_CLOEXEC, 0))});
}

bool ShmWire::tell_the_rest() {
  while (!untold_.empty()) {
    const auto& [record, fd] = untold_.front();
    if (!send_record(socket_, record, fd.get()) && errno == EAGAIN) return false;
    untold_.pop_front();
  }
  return true;
}

std::size_t ShmWire::write(std::span<const ConstBytes> pieces) {
  return untold_.empty() || tell_the_rest() ? RingWire::write(pieces) : 0;
}

bool ShmWire::arm(bool wants_room) {
  // With records untold, the socket wakes us when it has room.
  return RingWire::arm(wants_room && untold_.empty());
}

std::shared_ptr<const Region> ShmWire::reach(std::uint32_t id) {
  auto found = regions_.find(id);
  if (found == regions_.end()) {
    on_fd_ready();
    found = regions_.find(id);
  }
  return found == regions_.end() ? nullptr : found->second;
}

}  // namespace asup::net
