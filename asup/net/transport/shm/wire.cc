#include "asup/net/transport/shm/wire.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "asup/base/error.h"

namespace asup::net {
namespace {

using Record = ShmRecord;

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
  int fd = -1;
};
enum class Ended { nothing_there, closed };

// One record, or why there is none. A descriptor comes with the first byte of its record.
std::optional<Received> receive_record(int socket, Ended& ended) {
  Received received;
  iovec piece{&received.record, sizeof received.record};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t n = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
    ended = Ended::nothing_there;
    return std::nullopt;
  }
  if (cmsghdr* header = n > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
      header && header->cmsg_type == SCM_RIGHTS)
    std::memcpy(&received.fd, CMSG_DATA(header), sizeof(int));
  if (n != sizeof received.record) {  // records are written whole: anything else is the end
    if (received.fd >= 0) close(received.fd);
    ended = Ended::closed;
    return std::nullopt;
  }
  return received;
}

}  // namespace

std::unique_ptr<ShmWire> ShmWire::connect(int socket) {
  Region rings = Region::make(2 * kRingBytes);
  check(send_record(socket, {Record::Kind::rings, 0, rings.bytes().size()}, rings.fd()),
        "cannot pass shared memory to a peer: {}", std::strerror(errno));
  return std::unique_ptr<ShmWire>(new ShmWire(socket, std::move(rings), true));
}

std::unique_ptr<ShmWire> ShmWire::accept(int socket) {
  pollfd wait{socket, POLLIN, 0};
  poll(&wait, 1, 5000);
  Ended ended{};
  auto received = receive_record(socket, ended);
  check(received && received->record.kind == Record::Kind::rings && received->fd >= 0 &&
            received->record.bytes == 2 * kRingBytes,
        "a peer on this host did not offer its rings");
  Region rings = Region::map(received->fd, received->record.bytes);
  return std::unique_ptr<ShmWire>(new ShmWire(socket, std::move(rings), false));
}

ShmWire::ShmWire(int socket, Region rings, bool connected)
    : RingWire(rings.bytes().data() + (connected ? 0 : kRingBytes),
               rings.bytes().data() + (connected ? kRingBytes : 0)),
      socket_(socket),
      rings_(std::move(rings)) {}

ShmWire::~ShmWire() {
  for (const auto& [record, fd] : untold_)
    if (fd >= 0) close(fd);
  close(socket_);
}

// A full socket means that the peer has wake-ups waiting already.
void ShmWire::wake_peer() { send_record(socket_, {Record::Kind::wake, 0, 0}); }

void ShmWire::on_fd_ready() {
  Ended ended{};
  while (auto received = receive_record(socket_, ended)) {
    const auto& [record, fd] = *received;
    if (record.kind == Record::Kind::region && fd >= 0)
      regions_.insert_or_assign(record.region,
                                std::make_shared<const Region>(Region::map(fd, record.bytes)));
    else if (fd >= 0)
      close(fd);
    else if (record.kind == Record::Kind::withdrawn)
      regions_.erase(record.region);
  }
  if (ended == Ended::closed) closed_ = true;
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
  untold_.push_back({record, fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0)});
}

bool ShmWire::tell_the_rest() {
  while (!untold_.empty()) {
    const auto& [record, fd] = untold_.front();
    if (!send_record(socket_, record, fd) && errno == EAGAIN) return false;
    if (fd >= 0) close(fd);
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
