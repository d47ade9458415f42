#include "asup/net/membership/coordinator.h"

#include <poll.h>
#include <sys/socket.h>

#include "asup/base/error.h"
#include "asup/net/membership/admission.h"
#include "asup/net/membership/reach_coordinator.h"
#include "coordinator_suite.h"

namespace asup::net {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Kind = ControlFrame::Kind;

// Keeps a port of this host that nobody listens on. A listener can still have it, since it says
// SO_REUSEADDR too; the kernel gives it to nobody else.
class HeldPort {
 public:
  HeldPort() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    setsockopt(fd_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const SocketAddress any = interface_address("127.0.0.1");
    check(bind(fd_.get(), any.get(), any.length()) == 0, "bind");
  }
  SocketAddress address() const { return bound_address(fd_.get()); }

 private:
  const Fd fd_;
};

TEST_F(CoordinatorTest, BringsAllTogether) {
  Coordinator coordinator(options(5));
  auto members = join_all(5, coordinator.address());
  const Roster& roster = members[0].roster();
  EXPECT_EQ(roster.generation, 1u);
  ASSERT_EQ(roster.size(), 5);
  for (int rank = 0; rank < 5; ++rank) {
    const Member& member = roster.members[static_cast<std::size_t>(rank)];
    EXPECT_EQ(member.rank, rank);
    EXPECT_EQ(member.id, static_cast<std::uint64_t>(rank) + 1);
    EXPECT_EQ(member.pid, getpid());
    EXPECT_EQ(member.host, this_host());
    EXPECT_EQ(member.tcp_address, fmt::format("127.0.0.1:{}", 1000 + rank));
    EXPECT_EQ(members[static_cast<std::size_t>(rank)].roster(), roster);
    EXPECT_EQ(members[static_cast<std::size_t>(rank)].self(), member);
  }
}

TEST_F(CoordinatorTest, MembersMayComeBeforeTheCoordinator) {
  const HeldPort port;
  auto early = join(0, 2, port.address().to_string());
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  CoordinatorOptions late = options(2);
  late.listen = port.address();
  Coordinator coordinator(late);
  auto other = join(1, 2, coordinator.address());
  EXPECT_EQ(early.get().roster().size(), 2);
  EXPECT_EQ(other.get().roster().size(), 2);
}

TEST_F(CoordinatorTest, NamesTheRanksThatNeverCame) {
  CoordinatorOptions impatient = options(5);
  impatient.join_timeout = Seconds(3);  // also what the other has to come after the first
  Coordinator coordinator(impatient);
  auto zero = join(0, 5, coordinator.address());
  auto two = join(2, 5, coordinator.address());
  const std::string why = "ranks 1, 3 and 4 never joined within 3 s; ranks 0 and 2 did";
  EXPECT_EQ(thrown<JobFailed>(std::move(zero)), why);
  EXPECT_EQ(thrown<JobFailed>(std::move(two)), why);
  EXPECT_EQ(failed_.wait(1), std::vector{why});
  // Who comes later hears the same at once.
  EXPECT_EQ(thrown<JobFailed>(join(1, 5, coordinator.address())), why);
}

TEST_F(CoordinatorTest, RefusesASecondProcessOfTheSameRankAndGoesOn) {
  Coordinator coordinator(options(2));
  // The first to speak is in; which of the two that is does not matter.
  auto one = join(1, 2, coordinator.address()), another = join(1, 2, coordinator.address());
  while (one.wait_for(std::chrono::milliseconds(5)) != std::future_status::ready &&
         another.wait_for(std::chrono::milliseconds(5)) != std::future_status::ready) {
  }
  if (another.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
    std::swap(one, another);
  EXPECT_THAT(thrown<BadInput>(std::move(another)),
              AllOf(HasSubstr("two processes claim rank 1"), HasSubstr("which was first")));
  auto zero = join(0, 2, coordinator.address());
  EXPECT_EQ(zero.get().roster().size(), 2);
  EXPECT_EQ(one.get().roster().size(), 2);
}

TEST_F(CoordinatorTest, RefusesAnotherSize) {
  Coordinator coordinator(options(2));
  EXPECT_THAT(thrown<BadInput>(join(0, 3, coordinator.address())),
              AllOf(HasSubstr("rank 0 (pid"), HasSubstr("a job of 3"), HasSubstr("has 2 ranks")));
  EXPECT_THAT(thrown<BadInput>(join(2, 2, coordinator.address())),
              HasSubstr("is not one of the ranks 0 to 1"));
}

TEST_F(CoordinatorTest, KnowsTheServersAmongItsMembers) {
  CoordinatorOptions with_servers = options(4);
  with_servers.servers = 2;
  Coordinator coordinator(with_servers);
  JoinOptions other = join_options(0, 4, coordinator.address());
  other.servers = 1;
  EXPECT_THAT(thrown<BadInput>(join(other)), AllOf(HasSubstr("a job of 3 workers and 1 server"),
                                                   HasSubstr("has 2 workers and 2 servers")));
}

TEST(Admission, NamesTheServersThatNeverCame) {
  const Roles roles{2, 2};
  Admission admission(roles);
  for (const int rank : {1, 3}) {
    Hello hello{.version = "", .size = 4, .servers = 2, .member = {}};
    hello.member.rank = rank;
    hello.member.server = roles.server(rank);
    EXPECT_FALSE(admission.admit(hello));
  }
  EXPECT_EQ(admission.describe_missing(Seconds(0.5)),
            "rank 0 and server 0 never joined within 0.5 s; rank 1 and server 1 did");
}

TEST_F(CoordinatorTest, RefusesAnotherVersionAndAMumbledHello) {
  Coordinator coordinator(options(2));
  const SocketAddress address = resolve(parse_endpoint(coordinator.address(), "")).front();
  const auto answer_to = [&](Kind kind, const std::string& body) {
    ControlConnection connection =
        reach_coordinator(address, key_, TlsMode::automatic, "test", after(kLimit));
    connection.send(kind, body);
    const ControlFrame frame = next_frame(connection, after(kLimit));
    EXPECT_EQ(frame.kind, Kind::refused);
    return parse_refusal(frame.body).reason;
  };
  EXPECT_THAT(answer_to(Kind::hello, to_json(Hello{99, "9.9", 2, 0, {}})),
              AllOf(HasSubstr("speaks protocol 99 (asup 9.9)"), HasSubstr("same asup")));
  EXPECT_THAT(answer_to(Kind::hello, "{]"), HasSubstr("cannot be read"));
  EXPECT_THAT(answer_to(Kind::heartbeat, ""), HasSubstr("no hello"));
}

TEST_F(CoordinatorTest, RefusesWhoComesWhenTheJobIsComplete) {
  Coordinator coordinator(options(1));
  auto member = join(0, 1, coordinator.address()).get();
  EXPECT_THAT(thrown<BadInput>(join(0, 1, coordinator.address())), HasSubstr("is too late"));
}

TEST_F(CoordinatorTest, RefusesAnotherKey) {
  Coordinator coordinator(options(2));
  JoinOptions stranger = join_options(0, 2, coordinator.address());
  stranger.key = random_key();
  EXPECT_THAT(thrown<BadInput>(join(stranger)),
              AllOf(HasSubstr("does not share this process's key"), HasSubstr("ASUP_KEY_FILE")));
}

TEST_F(CoordinatorTest, SaysWhoCouldNotReachIt) {
  const HeldPort port;
  JoinOptions alone = join_options(3, 4, port.address().to_string());
  alone.join_timeout = Seconds(1);
  EXPECT_THAT(thrown<JobFailed>(join(alone)),
              AllOf(HasSubstr("rank 3 (pid"), HasSubstr(port.address().to_string()),
                    HasSubstr("Connection refused")));
}

TEST_F(CoordinatorTest, AnotherServiceOnThePortIsNamed) {
  const Fd service = listen_on(interface_address("127.0.0.1"), "");
  const SocketAddress address = bound_address(service.get());
  auto joining = join(0, 2, address.to_string());
  pollfd ready{service.get(), POLLIN, 0};
  ASSERT_EQ(poll(&ready, 1, 20'000), 1);
  const Fd caller(accept(service.get(), nullptr, nullptr));
  ASSERT_GT(send(caller.get(), "SSH-2.0-OpenSSH_9.2\r\n", 21, 0), 0);
  EXPECT_THAT(thrown<BadInput>(std::move(joining)), HasSubstr("something other than asup listens"));
}

TEST_F(CoordinatorTest, ScannersNeitherHarmNorHinder) {
  CoordinatorOptions patient = options(3);
  patient.hello_timeout = Seconds(60);
  Coordinator coordinator(patient);
  const SocketAddress address = resolve(parse_endpoint(coordinator.address(), "")).front();
  std::vector<Fd> scanners;
  for (int i = 0; i < 300; ++i) {
    Fd& scanner = scanners.emplace_back(socket(AF_INET, SOCK_STREAM, 0));
    ASSERT_EQ(connect(scanner.get(), address.get(), address.length()), 0);
    if (i % 3 == 0) send(scanner.get(), "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL);
    if (i % 3 == 1) send(scanner.get(), std::string(100'000, 'a').data(), 100'000, MSG_NOSIGNAL);
    // Every third one says nothing at all.
  }
  const auto start = Clock::now();
  const auto members = join_all(3, coordinator.address());
  EXPECT_EQ(members[1].roster().size(), 3);
  EXPECT_LT(seconds_since(start), 30.0) << "members waited for the scanners' deadline";
  EXPECT_TRUE(lost_.wait(1, Seconds(0.1)).empty());
}

TEST_F(CoordinatorTest, WhoDoesNotSayHelloInTimeIsSentAway) {
  CoordinatorOptions impatient = options(1);
  impatient.hello_timeout = Seconds(0.2);
  Coordinator coordinator(impatient);
  const SocketAddress address = resolve(parse_endpoint(coordinator.address(), "")).front();
  const Fd silent(socket(AF_INET, SOCK_STREAM, 0));
  ASSERT_EQ(connect(silent.get(), address.get(), address.length()), 0);
  char byte;
  EXPECT_EQ(recv(silent.get(), &byte, 1, 0), 0);
}

TEST_F(CoordinatorTest, PortInUseSaysWhatToChange) {
  Coordinator first(options(1));
  CoordinatorOptions second = options(1);
  second.listen = resolve(parse_endpoint(first.address(), "")).front();
  second.remedy = "choose another with --port";
  try {
    Coordinator coordinator(second);
    FAIL();
  } catch (const BadInput& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("is in use"), HasSubstr("another with --port")));
  }
}

TEST_F(CoordinatorTest, ListensOnItsInterfaceOnly) {
  Coordinator coordinator(options(1));
  const Endpoint endpoint = parse_endpoint(coordinator.address(), "");
  EXPECT_EQ(endpoint.host, "127.0.0.1");
  // Were it 0.0.0.0, every loopback address would answer.
  const SocketAddress other = resolve({"127.0.0.2", endpoint.port}).front();
  const Fd fd(socket(AF_INET, SOCK_STREAM, 0));
  EXPECT_EQ(connect(fd.get(), other.get(), other.length()), -1);
}

}  // namespace
}  // namespace asup::net
