// Peers that hold the key and do not keep to the protocol: the link ends, says why, and nothing
// else happens.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>

#include "asup/base/error.h"
#include "asup/base/fd.h"
#include "asup/base/out_of_memory.h"
#include "asup/net/transport/link.h"
#include "asup/net/transport/shm/wire.h"
#include "tests/net/transport/memory_wire.h"
#include "tests/support/thrown.h"

namespace asup::net {
namespace {

using ::testing::HasSubstr;
using HeaderKind = FrameHeader::Kind;

FrameHeader frame(HeaderKind kind, Channel channel, std::uint32_t payload, std::uint64_t total,
                  std::uint16_t head = 0) {
  return {kind, kFrameVersion, head, payload, channel, total, 0};
}

// Has memory for so many bytes and not one more.
struct Exact : Receiver {
  explicit Exact(std::size_t bytes) : bytes(bytes) {}
  bool begin(ConstBytes, std::uint64_t total) override { return total == bytes.size(); }
  Bytes room() override { return Bytes(bytes).subspan(got); }
  void advance(std::size_t n) override { got += n; }
  void take(ConstBytes from) override {
    ASSERT_LE(from.size(), bytes.size() - got);
    std::copy(from.begin(), from.end(), bytes.begin() + static_cast<std::ptrdiff_t>(got));
    got += from.size();
  }
  void end() override { done = true; }

  std::vector<std::byte> bytes;
  std::size_t got = 0;
  bool done = false;
};

class HostilePeer : public ::testing::Test {
 protected:
  void say(const FrameHeader& header) {
    wire->bring(header, round_up_to_unit(header.head) + round_up_to_unit(header.payload));
    move();
  }
  void move() {
    while (link.progress()) continue;
  }
  void expect_lost(const char* why) {
    EXPECT_EQ(link.end(), LinkEnd::lost);
    EXPECT_THAT(link.why(), HasSubstr(why));
  }

  MemoryWire* wire = new MemoryWire;
  Link link{std::unique_ptr<Wire>(wire)};
};

TEST_F(HostilePeer, GoesOnWithAMessageThatNeverBegan) {
  say(frame(HeaderKind::more, 5, 64, 64));
  expect_lost("goes on with a message that it did not begin");
}

TEST_F(HostilePeer, GoesOnWithAMessageThatHasEnded) {
  Exact receiver(64), next(64);
  link.receive(5, receiver);
  link.receive(5, next);
  say(frame(HeaderKind::first, 5, 64, 64));
  EXPECT_TRUE(receiver.done);
  say(frame(HeaderKind::more, 5, 64, 128));
  expect_lost("goes on with a message that it did not begin");
  EXPECT_EQ(next.got, 0u);
}

TEST_F(HostilePeer, BeginsAMessageWithinAnother) {
  Exact receiver(128);
  link.receive(5, receiver);
  say(frame(HeaderKind::first, 5, 64, 128));
  say(frame(HeaderKind::first, 5, 64, 128));
  expect_lost("begins a message within another");
  EXPECT_FALSE(receiver.done);
}

TEST_F(HostilePeer, SendsMoreThanAMessageHas) {
  Exact receiver(96);
  link.receive(5, receiver);
  say(frame(HeaderKind::first, 5, 64, 96));
  say(frame(HeaderKind::more, 5, 64, 96));
  expect_lost("more bytes than the message has");
  EXPECT_EQ(receiver.got, 64u);
}

TEST_F(HostilePeer, SendsAFrameLongerThanItsMessage) {
  say(frame(HeaderKind::first, 5, 32, 1));
  expect_lost("more bytes than the message has");
}

TEST_F(HostilePeer, CutsAMessageWithinAUnit) {
  Exact receiver(1000);
  link.receive(5, receiver);
  say(frame(HeaderKind::first, 5, 33, 1000));
  expect_lost("cuts a message within a unit");
}

TEST_F(HostilePeer, SaysWhatNoMemberSays) {
  FrameHeader other = frame(HeaderKind::first, 5, 0, 0);
  other.version = 9;
  say(other);
  expect_lost("version 9");
}

TEST_F(HostilePeer, SendsAFrameOfNoKind) {
  say(frame(static_cast<HeaderKind>(77), 5, 0, 0));
  expect_lost("kind 77");
}

TEST_F(HostilePeer, SendsALongHead) {
  wire->bring(frame(HeaderKind::first, 5, 0, 0, 0xffff), 0);
  move();
  expect_lost("head of 65535 bytes");
}

TEST_F(HostilePeer, SendsALongFrame) {
  wire->bring(frame(HeaderKind::first, 5, 0xffffffff, ~std::uint64_t{0}), 0);
  move();
  expect_lost("payload of 4294967295 bytes");
}

TEST_F(HostilePeer, GoesOnWithAHead) {
  Exact receiver(128);
  link.receive(5, receiver);
  say(frame(HeaderKind::first, 5, 64, 128));
  say(frame(HeaderKind::more, 5, 64, 128, 64));
  expect_lost("head of 64 bytes");
}

TEST_F(HostilePeer, IgnoresTheCreditItHas) {
  say(frame(HeaderKind::first, 5, 1024, 8 * kWindow));
  for (int i = 0; i < 2000 && link.end() == LinkEnd::open; ++i)
    say(frame(HeaderKind::more, 5, 1024, 8 * kWindow));
  expect_lost("more than it has credit for");
}

TEST_F(HostilePeer, FillsNoMemoryByEmptyMessages) {
  for (int i = 0; i < 100'000 && link.end() == LinkEnd::open; ++i)
    say(frame(HeaderKind::first, 5, 0, 0));
  expect_lost("more than it has credit for");
}

TEST_F(HostilePeer, GrantsCreditThatItNeverTook) {
  say(frame(HeaderKind::credit, 5, 0, kWindow));
  expect_lost("credit");
}

TEST_F(HostilePeer, GrantsMoreCreditThanItTook) {
  const std::vector<std::byte> payload(64);
  Outgoing message{{}, payload};
  link.send(5, message);
  say(frame(HeaderKind::credit, 5, 0, ~std::uint64_t{0}));
  expect_lost("credit");
}

// A gigabyte every three seconds, once.
TEST_F(HostilePeer, FillsNoMemoryByEverNewChannels) {
  Channel channel = 1;
  for (; channel < 100'000 && link.end() == LinkEnd::open; ++channel)
    say(frame(HeaderKind::first, channel, 32, 1 << 20));
  expect_lost("channels that nobody asked for");
  EXPECT_EQ(channel, kMostUnasked + 2);
}

TEST_F(HostilePeer, FillsNoMemoryByManyChannels) {
  std::uint64_t sent = 0;
  for (Channel channel = 1; channel < 4096 && link.end() == LinkEnd::open; ++channel)
    for (const HeaderKind kind : {HeaderKind::first, HeaderKind::more, HeaderKind::more}) {
      say(frame(kind, channel, kMaxFramePayload, kWindow));
      sent += kMaxFramePayload;
      if (link.end() != LinkEnd::open) break;
    }
  expect_lost("set aside");
  EXPECT_LE(sent, kMostAside + kMaxFramePayload);
}

// The same by members that keep to it: a late rank finds all of what came before it, and what it
// took makes room for as much again.
TEST_F(HostilePeer, IsNotOneThatComesEarly) {
  constexpr Channel kChannels = 1000;
  constexpr std::uint32_t kBytes = 100'000;
  for (int round = 0; round < 8; ++round) {
    for (Channel channel = 1; channel <= kChannels; ++channel) {
      say(frame(HeaderKind::first, channel, kBytes, kBytes, 64));
      ASSERT_EQ(link.end(), LinkEnd::open) << link.why();
    }
    for (Channel channel = 1; channel <= kChannels; ++channel) {
      Exact receiver(kBytes);
      link.receive(channel, receiver);
      ASSERT_TRUE(receiver.done);
    }
  }
}

TEST_F(HostilePeer, LeavesOtherChannelsInPeace) {
  Exact receiver(64);
  link.receive(6, receiver);
  say(frame(HeaderKind::first, 6, 64, 64));
  say(frame(HeaderKind::more, 5, 64, 64));
  EXPECT_TRUE(receiver.done) << "what came before still counts";
  EXPECT_EQ(link.end(), LinkEnd::lost);
  link.forget(5);
  link.forget(6);
}

// The far end of a link over shared memory, by hand.
class HostileNeighbour : public ::testing::Test {
 protected:
  HostileNeighbour() {
    int ends[2];
    check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
    theirs.reset(ends[0]);
    say({ShmRecord::Kind::rings, 0, 2 * kRingBytes}, rings.fd());
    link = std::make_unique<Link>(ShmWire::accept(ends[1]));
  }

  // With as many copies of the descriptor as there are places.
  template <typename... Fds>
  void say(const ShmRecord& record, Fds... descriptors) {
    iovec piece{const_cast<ShmRecord*>(&record), sizeof record};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    const std::array<int, sizeof...(Fds)> fds{descriptors...};
    alignas(cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {};
    if (!fds.empty()) {
      message.msg_control = control;
      message.msg_controllen = CMSG_SPACE(sizeof fds);
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(sizeof fds);
      std::memcpy(CMSG_DATA(header), fds.data(), sizeof fds);
    }
    ASSERT_EQ(sendmsg(theirs.get(), &message, MSG_NOSIGNAL), static_cast<ssize_t>(sizeof record));
    if (link) move();
  }
  void move() {
    for (int i = 0; i < 3; ++i) {
      link->wire().on_fd_ready();
      link->progress();
    }
  }
  void expect_lost(const char* why) {
    EXPECT_EQ(link->end(), LinkEnd::lost);
    EXPECT_THAT(link->why(), HasSubstr(why));
  }
  static std::ptrdiff_t open_files() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  }

  Region rings = Region::make(2 * kRingBytes);
  Fd theirs;
  std::unique_ptr<Link> link;
};

TEST_F(HostileNeighbour, OffersMemoryThatIsShorterThanItSays) {
  const Region region = Region::make(4096);
  say({ShmRecord::Kind::region, 1, 1 << 20}, region.fd());
  expect_lost("the file is shorter");
}

TEST_F(HostileNeighbour, OffersMemoryThatItCanCut) {
  const Fd file(memfd_create("cut", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(file.get(), 4096), 0);
  say({ShmRecord::Kind::region, 1, 4096}, file.get());
  expect_lost("the file is not sealed");
}

TEST_F(HostileNeighbour, OffersWhatIsNoMemory) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  say({ShmRecord::Kind::region, 1, 4096}, ends[0]);
  expect_lost("the file is not sealed");
  close(ends[0]);
  close(ends[1]);
}

TEST_F(HostileNeighbour, OffersMemoryOfNoSize) {
  const Region region = Region::make(4096);
  say({ShmRecord::Kind::region, 1, 0}, region.fd());
  expect_lost("there are none");
}

TEST_F(HostileNeighbour, OffersARegionTwice) {
  const Region region = Region::make(4096);
  say({ShmRecord::Kind::region, 1, 4096}, region.fd());
  EXPECT_EQ(link->end(), LinkEnd::open);
  say({ShmRecord::Kind::region, 1, 4096}, region.fd());
  expect_lost("region 1 twice");
}

TEST_F(HostileNeighbour, OffersARegionWithoutMemory) {
  say({ShmRecord::Kind::region, 1, 4096});
  expect_lost("without its memory");
}

TEST_F(HostileNeighbour, SendsARecordOfNoKind) {
  say({static_cast<ShmRecord::Kind>(99), 0, 0});
  expect_lost("record of kind 99");
}

TEST_F(HostileNeighbour, SendsAPartOfARecord) {
  ASSERT_EQ(send(theirs.get(), "abc", 3, 0), 3);
  move();
  expect_lost("part of a record");
}

TEST_F(HostileNeighbour, SaysThatItWroteMoreThanFits) {
  auto& header = *reinterpret_cast<RingHeader*>(rings.bytes().data());
  header.tail = 1 << 30;
  move();
  expect_lost("does not fit the ring");
}

// Descriptors are few: mapped memory needs none, and those that nobody asked for are closed.
TEST_F(HostileNeighbour, LeavesNoDescriptorOpen) {
  const Region region = Region::make(4096);
  const auto before = open_files();
  for (std::uint32_t id = 1; id <= 50; ++id) say({ShmRecord::Kind::region, id, 4096}, region.fd());
  EXPECT_EQ(link->end(), LinkEnd::open);
  EXPECT_EQ(open_files(), before);
  say({ShmRecord::Kind::region, 60, 4096}, region.fd(), region.fd(), region.fd());
  EXPECT_EQ(open_files(), before);
  expect_lost("more than one descriptor");
}

// As long as it lives, nothing can be opened.
class NoDescriptors {
 public:
  NoDescriptors() {
    check(getrlimit(RLIMIT_NOFILE, &before_) == 0, "getrlimit");
    const Fd next(dup(STDERR_FILENO));
    const rlimit none{static_cast<rlim_t>(next.get()), before_.rlim_max};
    check(setrlimit(RLIMIT_NOFILE, &none) == 0, "setrlimit");
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST_F(HostileNeighbour, IsNotOneWhoseMemoryThisProcessHasNoDescriptorFor) {
  const Region region = Region::make(4096);
  const NoDescriptors none;
  EXPECT_THAT(asup::testing::message_of<OutOfMemory>([&] {
                say({ShmRecord::Kind::region, 1, 4096}, region.fd());
              }),
              HasSubstr("ulimit -n"));
  EXPECT_TRUE(link->wire().closed());
  EXPECT_EQ(link->wire().breach(), "");
}

// More than a process has addresses for, in a file that takes no memory.
TEST_F(HostileNeighbour, IsNotOneWhoseMemoryThisProcessHasNoRoomFor) {
  constexpr std::uint64_t kMuch = std::uint64_t{1} << 60;
  const Fd file(memfd_create("much", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(file.get(), kMuch), 0);
  ASSERT_EQ(fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_THAT(asup::testing::message_of<OutOfMemory>([&] {
                say({ShmRecord::Kind::region, 1, kMuch}, file.get());
              }),
              HasSubstr("no memory to map"));
  EXPECT_TRUE(link->wire().closed());
  EXPECT_EQ(link->wire().breach(), "");
}

TEST(Region, CannotBeCutUnderThoseWhoMappedIt) {
  const Region region = Region::make(1 << 20);
  EXPECT_NE(ftruncate(region.fd(), 0), 0);
  region.bytes().back() = std::byte{1};
}

}  // namespace
}  // namespace asup::net
