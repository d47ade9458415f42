// A process of the same host that holds the key, and what it passes: records with and without
// descriptors, of memory that is sealed or not, as long as it says or not, and bytes in the rings.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <vector>

#include "asup/net/transport/ring_wire.h"
#include "asup/net/transport/shm/wire.h"
#include "tests/fuzz/input.h"

namespace asup::net {
namespace {

constexpr std::size_t kMostBytes = 1 << 20;  // of a file that is offered

Fd make_file(std::size_t bytes, bool sealed) {
  Fd fd(memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  check(ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0, "ftruncate");
  if (sealed) fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK);
  return fd;
}

void pass(int socket, std::span<const std::byte> bytes, const std::vector<int>& fds) {
  iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size() * sizeof(int));
  }
  (void)sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// One record, or what may be taken for one.
void pass_some(int socket, fuzz::Input& input, std::uint32_t kind) {
  const int what = input.number<std::uint8_t>();
  ShmRecord record{static_cast<ShmRecord::Kind>(kind), input.number<std::uint8_t>(),
                   input.number<std::uint32_t>()};
  if ((what & 1) != 0) record.bytes = input.number<std::uint64_t>();
  const std::size_t file_bytes =
      (what & 2) != 0 ? std::min<std::size_t>(record.bytes, kMostBytes) : what;
  std::vector<Fd> files;
  if ((what & 4) != 0) files.push_back(make_file(file_bytes, (what & 8) != 0));
  if ((what & 16) != 0 && (what & 32) != 0) files.push_back(make_file(1, true));
  std::vector<int> fds;
  for (const Fd& file : files) fds.push_back(file.get());
  const auto bytes = std::as_bytes(std::span(&record, 1));
  pass(socket, (what & 192) == 192 ? bytes.first(5) : bytes, fds);
}

void pass_rings(int socket, std::span<std::byte>& rings) {
  const Region region = Region::make(2 * kRingBytes);
  const ShmRecord record{ShmRecord::Kind::rings, 0, region.bytes().size()};
  pass(socket, std::as_bytes(std::span(&record, 1)), {region.fd()});
  void* at = mmap(nullptr, 2 * kRingBytes, PROT_READ | PROT_WRITE, MAP_SHARED, region.fd(), 0);
  check(at != MAP_FAILED, "mmap");
  rings = {static_cast<std::byte*>(at), 2 * kRingBytes};
}

// What a member does with its wire.
void use(ShmWire& wire, std::uint32_t region) {
  if (!wire.closed()) wire.on_fd_ready();
  if (const auto memory = wire.reach(region)) {
    volatile std::byte last = memory->bytes().back();
    (void)last;
  }
  std::byte into[64];
  for (int i = 0; i < 4 && !wire.closed() && wire.breach().empty(); ++i)
    if (wire.read(into) == 0) break;
  const ConstBytes bytes = std::as_bytes(std::span("thirty-two bytes of some message"));
  const ConstBytes piece = bytes.first(kUnit);
  wire.write({&piece, 1});
}

}  // namespace
}  // namespace asup::net

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace asup::net;
  asup::fuzz::Input input(data, size);
  int ends[2];
  asup::check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0,
              "socketpair");
  const asup::Fd peer(ends[1]);
  std::span<std::byte> rings;
  if (input.below(4) != 0) {
    pass_rings(peer.get(), rings);
  } else {
    pass_some(peer.get(), input, 1);
    shutdown(peer.get(), SHUT_WR);
  }
  try {
    const auto wire = ShmWire::accept(ends[0]);
    for (int i = 0; !input.empty() && i < 32; ++i) {
      const int what = input.below(8);
      if (what > 1)
        pass_some(peer.get(), input, static_cast<std::uint32_t>(what - 2));
      else if (!rings.empty() && what == 1)
        std::memcpy(rings.data() + (input.below(2) != 0 ? kRingBytes : 0) +
                        static_cast<std::size_t>(input.below(4)) * 32,
                    std::array{input.number<std::uint64_t>()}.data(), 8);
      use(*wire, static_cast<std::uint32_t>(input.below(4)));
    }
  } catch (const asup::Error&) {
  }
  if (!rings.empty()) munmap(rings.data(), rings.size());
  return 0;
}
