#include "tests/net/transport/link_suite.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <random>

#include "asup/net/transport/region.h"

namespace asup::net {

std::vector<std::byte> random_bytes(std::size_t count, unsigned seed) {
  std::vector<std::byte> bytes(count);
  std::mt19937_64 random(seed);
  for (std::size_t i = 0; i < count; i += 8) {
    const std::uint64_t word = random();
    std::memcpy(bytes.data() + i, &word, std::min<std::size_t>(8, count - i));
  }
  return bytes;
}

void LinkSuite::connect() {
  auto [one, other] = kind().make();
  a = std::make_unique<Link>(std::move(one));
  b = std::make_unique<Link>(std::move(other));
}

bool LinkSuite::move_until(const std::function<bool()>& done, Seconds limit) {
  const Deadline deadline = after(limit);
  while (!done()) {
    for (Link* link : {a.get(), b.get()}) {
      if (!link) continue;
      link->wire().on_fd_ready();
      link->progress();
    }
    if (Clock::now() > deadline) return false;
  }
  return true;
}

void LinkToProcess::start_child() {
  const auto [ours, theirs] = kind().sockets();
  std::fflush(nullptr);
  child = fork();
  if (child == 0) {
    close(ours);
    Link link(kind().connect(theirs));
    for (;;) {  // echoes nothing, just keeps the link moving
      link.wire().on_fd_ready();
      link.progress();
      usleep(1000);
    }
  }
  close(theirs);
  b = std::make_unique<Link>(kind().accept(ours));
}

void LinkToProcess::TearDown() {
  if (child > 0) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
}

namespace {

// Takes a whole message into memory; `direct` chooses between the two ways bytes can come.
class Sink : public Receiver {
 public:
  explicit Sink(bool direct = false) : direct_(direct) {}
  bool begin(ConstBytes head, std::uint64_t total) override {
    this->head.assign(head.begin(), head.end());
    bytes.resize(total);
    return true;
  }
  Bytes room() override { return direct_ ? Bytes(bytes).subspan(got) : Bytes{}; }
  void advance(std::size_t n) override { got += n; }
  void take(ConstBytes from) override {
    EXPECT_TRUE(from.size() % kUnit == 0 || got + from.size() == bytes.size());
    std::memcpy(bytes.data() + got, from.data(), from.size());
    got += from.size();
  }
  void end() override { done = true; }

  std::vector<std::byte> head, bytes;
  std::size_t got = 0;
  bool done = false;

 private:
  bool direct_;
};

TEST_P(LinkSuite, CarriesMessagesOfEverySize) {
  connect();
  for (const std::size_t size :
       {0ul, 1ul, 31ul, 32ul, 33ul, 1000ul, 65536ul, 262145ul, 1048576ul, 5'000'003ul, 20ul << 20})
    for (const bool direct : {false, true}) {
      const auto payload = random_bytes(size, static_cast<unsigned>(size));
      const auto head = random_bytes(size % kMaxHead, 1);
      Outgoing message{head, payload};
      Sink sink(direct);
      b->receive(5, sink);
      a->send(5, message);
      ASSERT_TRUE(move_until([&] { return sink.done && message.done; })) << size;
      EXPECT_EQ(sink.head, head);
      EXPECT_TRUE(sink.bytes == payload) << size;
    }
}

TEST_P(LinkSuite, KeepsTheOrderOfAChannel) {
  connect();
  constexpr std::size_t kMessages = 500;
  std::vector<std::vector<std::byte>> payloads;
  std::deque<Outgoing> messages;
  std::deque<Sink> sinks;
  for (std::size_t i = 0; i < kMessages; ++i) {
    payloads.push_back(random_bytes(i * 37 % 2000, static_cast<unsigned>(i)));
    sinks.emplace_back();
  }
  // Half of the receivers come before the messages, half after.
  for (std::size_t i = 0; i < kMessages / 2; ++i) b->receive(9, sinks[i]);
  for (std::size_t i = 0; i < kMessages; ++i) {
    messages.push_back({{}, payloads[i]});
    a->send(9, messages.back());
  }
  move_until([&] { return sinks[kMessages / 2 - 1].done; });
  for (std::size_t i = kMessages / 2; i < kMessages; ++i) b->receive(9, sinks[i]);
  ASSERT_TRUE(move_until([&] { return sinks.back().done; }));
  for (std::size_t i = 0; i < kMessages; ++i) EXPECT_TRUE(sinks[i].bytes == payloads[i]) << i;
}

TEST_P(LinkSuite, CarriesBothDirectionsAtOnce) {
  connect();
  const auto to_b = random_bytes(9'000'000, 1), to_a = random_bytes(7'000'001, 2);
  Outgoing from_a{{}, to_b}, from_b{{}, to_a};
  Sink at_a, at_b(true);
  a->receive(1, at_a);
  b->receive(1, at_b);
  a->send(1, from_a);
  b->send(1, from_b);
  ASSERT_TRUE(move_until([&] { return at_a.done && at_b.done; }));
  EXPECT_TRUE(at_a.bytes == to_a);
  EXPECT_TRUE(at_b.bytes == to_b);
}

TEST_P(LinkSuite, AChannelThatNobodyReadsBlocksNoOther) {
  connect();
  const auto flood = random_bytes(8 * kWindow, 3), payload = random_bytes(3 * kWindow, 4);
  Outgoing unread{{}, flood}, wanted{{}, payload};
  a->send(1, unread);
  move_until([] { return false; }, Seconds(0.1));
  EXPECT_FALSE(unread.done) << "more was taken than the window holds";
  Sink sink;
  b->receive(2, sink);
  a->send(2, wanted);
  ASSERT_TRUE(move_until([&] { return sink.done; }));
  EXPECT_TRUE(sink.bytes == payload);
  Sink late;
  b->receive(1, late);
  ASSERT_TRUE(move_until([&] { return late.done && unread.done; }));
  EXPECT_TRUE(late.bytes == flood);
}

// Nobody takes anything off the wire, until it is full; then what still comes is dropped.
TEST_P(LinkSuite, TellsWhatHasNotArrived) {
  connect();
  const auto flood = random_bytes(kWindow / 2, 5);
  std::deque<Outgoing> messages;
  for (Channel channel = 1; channel <= 64; ++channel) {
    messages.push_back({{}, flood});
    a->send(channel, messages.back());
  }
  a->wire().on_fd_ready();
  a->progress();
  for (Channel channel = 1; channel <= 64; ++channel) {
    a->forget(channel);
    b->forget(channel);
  }
  const std::uint64_t bound = a->bytes_bound_to_leave();
  EXPECT_GT(bound, a->bytes_delivered());
  EXPECT_LE(bound, a->bytes_sent() + kMaxFramePayload + 2 * kUnit);
  EXPECT_TRUE(move_until([&] { return a->bytes_delivered() == bound; }));
  EXPECT_EQ(a->bytes_bound_to_leave(), bound);
}

// A receiver may come when part of a frame lies aside: that part must not be credited twice, or the
// sender's window grows with every such message.
TEST_P(LinkSuite, AReceiverThatComesHalfWayThroughAFrameLeavesTheWindowAsItIs) {
  connect();
  const auto payload = random_bytes(900'000, 6);
  for (int i = 0; i < 12; ++i) {
    Outgoing message{{}, payload};
    Sink sink(i % 2 == 0);
    a->send(1, message);
    a->progress();
    b->wire().on_fd_ready();
    b->progress();
    b->receive(1, sink);
    ASSERT_TRUE(move_until([&] { return sink.done && message.done; })) << i;
    ASSERT_TRUE(sink.bytes == payload) << i;
  }
  const auto flood = random_bytes(8 * kWindow, 7);
  const std::uint64_t before = a->bytes_sent();
  Outgoing unread{{}, flood};
  a->send(1, unread);
  move_until([] { return false; }, Seconds(0.1));
  EXPECT_LE(a->bytes_sent() - before, kWindow);
  EXPECT_EQ(b->end(), LinkEnd::open);
}

// Both sides offer more regions than a socket holds, and neither looks at it meanwhile.
TEST_P(LinkSuite, OffersManyRegionsWithoutWaiting) {
  connect();
  if (!a->wire().abilities().shares_memory) return;
  constexpr std::uint32_t kMany = 700;
  for (std::uint32_t i = 0; i < kMany; ++i) {
    const auto region = std::make_shared<const Region>(Region::make(4096));
    region->bytes()[0] = static_cast<std::byte>(i);
    a->wire().offer(i + 1, region);
    b->wire().offer(i + 1, region);
    if (i % 3 == 2) a->wire().withdraw(i);
  }
  const auto payload = random_bytes(1000, 8);
  Outgoing to_b{{}, payload}, to_a{{}, payload};
  Sink at_b, at_a;
  b->receive(1, at_b);
  a->receive(1, at_a);
  a->send(1, to_b);
  b->send(1, to_a);
  ASSERT_TRUE(move_until([&] { return at_a.done && at_b.done; }));
  for (std::uint32_t i = 0; i < kMany; ++i) {
    EXPECT_EQ(a->wire().reach(i + 1)->bytes()[0], static_cast<std::byte>(i));
    const auto reached = b->wire().reach(i + 1);
    ASSERT_EQ(reached == nullptr, i % 3 == 1 && i + 1 < kMany) << i;
    if (reached) {
      EXPECT_EQ(reached->bytes()[0], static_cast<std::byte>(i));
    }
  }
}

TEST_P(LinkSuite, AForgottenChannelLetsGoOfItsMemory) {
  connect();
  Sink kept;
  {
    auto payload = random_bytes(8 * kWindow, 5);
    Outgoing message{{}, payload};
    a->send(1, message);
    for (int i = 0; i < 3; ++i) a->progress();  // half sent
    a->forget(1);
    std::fill(payload.begin(), payload.end(), std::byte{0});
  }
  b->forget(1);
  const auto next = random_bytes(1000, 6);
  Outgoing message{{}, next};
  b->receive(2, kept);
  a->send(2, message);
  ASSERT_TRUE(move_until([&] { return kept.done; }));
  EXPECT_TRUE(kept.bytes == next);
}

TEST_P(LinkSuite, SeesTheDifferenceBetweenLeavingAndDying) {
  connect();
  Outgoing message{{}, {}};
  Sink sink;
  b->receive(1, sink);
  a->send(1, message);
  a->send_goodbye();
  while (a->has_unsent()) {
    a->wire().on_fd_ready();
    a->progress();
  }
  a.reset();
  ASSERT_TRUE(move_until([&] { return b->end() != LinkEnd::open; }));
  EXPECT_EQ(b->end(), LinkEnd::left);
  EXPECT_TRUE(sink.done) << "what was said before goodbye still counts";

  connect();
  a.reset();
  ASSERT_TRUE(move_until([&] { return b->end() != LinkEnd::open; }));
  EXPECT_EQ(b->end(), LinkEnd::lost);
}

TEST_P(LinkSuite, ReachesThePeersMemoryWhereItSays) {
  connect();
  auto region = std::make_shared<const Region>(Region::make(10'000));
  a->wire().offer(7, region);
  const auto there = b->wire().reach(7);
  if (!b->wire().abilities().shares_memory) {
    EXPECT_EQ(there, nullptr);
    return;
  }
  ASSERT_TRUE(there);
  ASSERT_EQ(there->bytes().size(), 10'000u);
  there->bytes()[1234] = std::byte{42};
  EXPECT_EQ(region->bytes()[1234], std::byte{42});
  EXPECT_EQ(b->wire().reach(8), nullptr);
  a->wire().withdraw(7);
  region.reset();
  b->wire().on_fd_ready();
  EXPECT_EQ(b->wire().reach(7), nullptr);
  EXPECT_EQ(there->bytes()[1234], std::byte{42}) << "who holds it may go on with it";
}

TEST_P(LinkToProcess, SeesAKilledProcess) {
  start_child();
  EXPECT_FALSE(move_until([&] { return b->end() != LinkEnd::open; }, Seconds(0.1)));
  kill(child, SIGKILL);
  ASSERT_TRUE(move_until([&] { return b->end() != LinkEnd::open; }));
  EXPECT_EQ(b->end(), LinkEnd::lost);
}

TEST_P(LinkToProcess, DoesNotTakeAStoppedProcessForDead) {
  start_child();
  kill(child, SIGSTOP);
  const auto payload = random_bytes(4 * kWindow, 9);
  Outgoing message{{}, payload};
  b->send(1, message);
  EXPECT_FALSE(move_until([&] { return b->end() != LinkEnd::open || message.done; }, Seconds(0.3)));
  EXPECT_EQ(b->end(), LinkEnd::open);
  kill(child, SIGCONT);
}

// A program holds one kind or several, and not all of them see death.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(LinkToProcess);

}  // namespace
}  // namespace asup::net
