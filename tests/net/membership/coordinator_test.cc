#include "asup/net/membership/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <condition_variable>
#include <future>
#include <mutex>

#include "asup/base/error.h"
#include "asup/net/membership/admission.h"
#include "asup/net/membership/key_exchange.h"
#include "asup/net/membership/membership.h"
#include "asup/net/membership/reach_coordinator.h"

namespace asup::net {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Kind = ControlFrame::Kind;

// Time for what must come sooner or later, however busy the machine is.
constexpr Seconds kLimit{20};

// What callbacks said, for another thread to wait for.
class Heard {
 public:
  void add(const std::string& what) {
    const std::lock_guard lock(mutex_);
    all_.push_back(what);
    changed_.notify_all();
  }
  // All that was said, once there are `count`, or at the deadline.
  std::vector<std::string> wait(std::size_t count, Seconds timeout = kLimit) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, after(timeout), [&] { return all_.size() >= count; });
    return all_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> all_;
};

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

class CoordinatorTest : public testing::Test {
 protected:
  CoordinatorOptions options(int size) {
    CoordinatorOptions options{.listen = interface_address("127.0.0.1"), .key = key_, .size = size};
    options.callbacks.on_failed = [this](const std::string& why) { failed_.add(why); };
    options.callbacks.on_lost = [this](const Member& member) { lost_.add(member.describe()); };
    options.callbacks.on_left = [this](const Member& member) { left_.add(member.describe()); };
    options.callbacks.on_late = [this](const Member& member, Seconds) {
      late_.add(member.describe());
    };
    return options;
  }

  JoinOptions join_options(int rank, int size, const std::string& address) {
    JoinOptions options;
    options.rank = rank;
    options.size = size;
    options.coordinator = address;
    options.key = key_;
    options.join_timeout = Seconds(60);
    return options;
  }

  std::future<Membership> join(int rank, int size, const std::string& address) {
    return join(join_options(rank, size, address));
  }
  std::future<Membership> join(const JoinOptions& options) {
    Member self;
    self.tcp_address = fmt::format("127.0.0.1:{}", 1000 + options.rank);
    return std::async(std::launch::async,
                      [options, self] { return Membership::join(options, self); });
  }

  std::vector<Membership> join_all(int size, const std::string& address) {
    std::vector<std::future<Membership>> coming;
    for (int rank = size - 1; rank >= 0; --rank) coming.push_back(join(rank, size, address));
    std::vector<Membership> members;
    for (auto& one : coming) members.push_back(one.get());
    std::reverse(members.begin(), members.end());
    return members;
  }

  // What join() threw.
  template <typename Exception>
  static std::string thrown(std::future<Membership> joining) {
    try {
      joining.get();
      return "nothing";
    } catch (const Exception& error) {
      return error.what();
    }
  }

  Key key_ = random_key();
  Heard failed_, lost_, left_, late_;
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
    ControlConnection connection = reach_coordinator(address, key_, "test", after(kLimit));
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

TEST_F(CoordinatorTest, GoodbyeIsNotALoss) {
  Coordinator coordinator(options(2));
  auto members = join_all(2, coordinator.address());
  Heard lost, left;
  members[0].watch({[&](const Member& member) { lost.add(member.describe()); },
                    [&](const Member& member) { left.add(member.describe()); }});
  const std::string who = members[1].self().describe();
  members[1].leave();
  EXPECT_EQ(left.wait(1), std::vector{who});
  EXPECT_EQ(left_.wait(1), std::vector{who});
  EXPECT_TRUE(lost.wait(1, Seconds(0.2)).empty());
  EXPECT_TRUE(lost_.wait(1, Seconds(0)).empty());
  members[0].leave();
}

// A member in a process of its own, which the test may kill. Started before any thread is.
class MemberProcess {
 public:
  explicit MemberProcess(JoinOptions options) {
    int fds[2];
    check(pipe(fds) == 0, "pipe");
    address_ = Fd(fds[1]);
    Fd reader(fds[0]);
    pid_ = fork();
    if (pid_ == 0) {
      address_.reset();
      run(std::move(options), reader.get());
    }
  }
  ~MemberProcess() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  void start(const std::string& coordinator) {
    const auto n = write(address_.get(), coordinator.data(), coordinator.size());
    check(n == static_cast<ssize_t>(coordinator.size()), "write");
    address_.reset();
  }
  void signal(int number) { kill(pid_, number); }
  pid_t pid() const { return pid_; }

 private:
  [[noreturn]] static void run(JoinOptions options, int fd) {
    char text[64];
    const ssize_t n = read(fd, text, sizeof text);
    if (n <= 0) _exit(1);
    options.coordinator.assign(text, static_cast<std::size_t>(n));
    auto membership = Membership::join(options, {});
    for (;;) pause();
  }

  Fd address_;
  pid_t pid_ = -1;
};

TEST_F(CoordinatorTest, AKilledMemberIsKnownToAll) {
  MemberProcess victim(join_options(1, 3, ""));
  Coordinator coordinator(options(3));
  victim.start(coordinator.address());
  auto zero = join(0, 3, coordinator.address()), two = join(2, 3, coordinator.address());
  Membership first = zero.get(), third = two.get();
  Heard to_first, to_third;
  first.watch({[&](const Member& member) { to_first.add(member.describe()); }, {}});
  third.watch({[&](const Member& member) { to_third.add(member.describe()); }, {}});

  victim.signal(SIGKILL);
  const std::string who = fmt::format("rank 1 (pid {} on {})", victim.pid(), this_hostname());
  EXPECT_EQ(to_first.wait(1), std::vector{who});
  EXPECT_EQ(to_third.wait(1), std::vector{who});
  EXPECT_EQ(lost_.wait(1), std::vector{who});
  first.leave();
  third.leave();
}

TEST_F(CoordinatorTest, ALossBeforeAnybodyWatchesIsNotForgotten) {
  MemberProcess victim(join_options(1, 2, ""));
  Coordinator coordinator(options(2));
  victim.start(coordinator.address());
  Membership survivor = join(0, 2, coordinator.address()).get();
  victim.signal(SIGKILL);
  ASSERT_EQ(lost_.wait(1).size(), 1u);
  Heard heard;
  survivor.watch({[&](const Member& member) { heard.add(member.describe()); }, {}});
  EXPECT_EQ(heard.wait(1).size(), 1u);
  survivor.leave();
}

// As under a launcher that starts again what has died.
TEST_F(CoordinatorTest, WhoComesBackIsToldThatTheJobGoesOnWithoutIt) {
  MemberProcess victim(join_options(1, 2, ""));
  Coordinator coordinator(options(2));
  victim.start(coordinator.address());
  Membership survivor = join(0, 2, coordinator.address()).get();
  victim.signal(SIGKILL);
  ASSERT_EQ(lost_.wait(1).size(), 1u);
  EXPECT_THAT(
      thrown<BadInput>(join(1, 2, coordinator.address())),
      AllOf(HasSubstr(fmt::format("cannot take the place of rank 1 (pid {} ", victim.pid())),
            HasSubstr("Start it with asup run --join")));
  survivor.leave();
}

TEST_F(CoordinatorTest, AStoppedMemberIsLateNotLost) {
  MemberProcess sleeper(join_options(1, 2, ""));
  CoordinatorOptions strict = options(2);
  strict.late_after = Seconds(1.5);
  Coordinator coordinator(strict);
  sleeper.start(coordinator.address());
  Membership other = join(0, 2, coordinator.address()).get();
  sleeper.signal(SIGSTOP);
  const std::string who = fmt::format("rank 1 (pid {} on {})", sleeper.pid(), this_hostname());
  EXPECT_EQ(late_.wait(1), std::vector{who});
  EXPECT_EQ(late_.wait(2, Seconds(0.5)).size(), 1u) << "a silence is reported once";
  EXPECT_TRUE(lost_.wait(1, Seconds(0)).empty());
  sleeper.signal(SIGCONT);
  sleeper.signal(SIGKILL);
  EXPECT_EQ(lost_.wait(1), std::vector{who});
  other.leave();
}

TEST_F(CoordinatorTest, AMemberKilledWhileOthersWaitEndsTheWait) {
  MemberProcess victim(join_options(1, 3, ""));
  Heard admitted;
  CoordinatorOptions watched = options(3);
  watched.callbacks.on_admitted = [&](const Member& member) { admitted.add(member.describe()); };
  Coordinator coordinator(watched);
  victim.start(coordinator.address());
  auto zero = join(0, 3, coordinator.address());
  ASSERT_EQ(admitted.wait(2).size(), 2u);
  victim.signal(SIGKILL);
  EXPECT_THAT(thrown<JobFailed>(std::move(zero)),
              AllOf(HasSubstr("rank 1 (pid"), HasSubstr("ended while it waited")));
}

TEST_F(CoordinatorTest, AProcessThatEndedWithoutJoiningEndsTheWait) {
  Coordinator coordinator(options(2));
  coordinator.process_ended(1, "rank 1 exited with status 0 before it joined");
  EXPECT_TRUE(failed_.wait(1, Seconds(0.1)).empty()) << "nobody waits for it yet";
  EXPECT_EQ(thrown<JobFailed>(join(0, 2, coordinator.address())),
            "rank 1 exited with status 0 before it joined");
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

// Under torchrun, Open MPI and Slurm rank 0 keeps the coordinator.
class HostedTest : public CoordinatorTest {
 protected:
  JoinOptions hosted(int rank, int size) {
    JoinOptions options = join_options(rank, size, "127.0.0.1:0");
    options.host_coordinator = rank == 0;
    options.one_host = true;
    options.key_socket = key_socket_name(fmt::format("test {} {}", getpid(), size));
    if (rank != 0) options.key = {};
    return options;
  }
};

TEST_F(HostedTest, RanksOfOneHostMeetWithoutAKeyFileOrAPort) {
  auto one = join(hosted(1, 3)), two = join(hosted(2, 3)), zero = join(hosted(0, 3));
  Membership a = zero.get(), b = one.get(), c = two.get();
  EXPECT_EQ(a.roster(), b.roster());
  EXPECT_EQ(b.key(), key_);
  EXPECT_EQ(c.key(), key_);

  // Rank 0 leaves first: the others lose the coordinator, but nobody is lost.
  Heard lost, left;
  b.watch({[&](const Member& member) { lost.add(member.describe()); },
           [&](const Member& member) { left.add(member.describe()); }});
  const std::string who = a.self().describe();
  a.leave();
  EXPECT_EQ(left.wait(1), std::vector{who});
  EXPECT_TRUE(lost.wait(1, Seconds(0.2)).empty());
  b.leave();
  c.leave();
}

TEST_F(HostedTest, WhenRankZeroDiesItIsLost) {
  JoinOptions options = hosted(0, 2);
  MemberProcess zero(options);
  zero.start("127.0.0.1:0");
  Membership one = join(hosted(1, 2)).get();
  Heard lost;
  one.watch({[&](const Member& member) { lost.add(member.describe()); }, {}});
  zero.signal(SIGKILL);
  EXPECT_EQ(lost.wait(1),
            std::vector{fmt::format("rank 0 (pid {} on {})", zero.pid(), this_hostname())});
  one.leave();
}

TEST_F(HostedTest, WithoutRankZeroTheOthersSaySo) {
  JoinOptions options = hosted(1, 2);
  options.join_timeout = Seconds(0.2);
  EXPECT_THAT(thrown<JobFailed>(join(options)), HasSubstr("rank 0 did not hand out"));
}

TEST_F(HostedTest, ASecondJobOfTheSameIdIsRefused) {
  const Fd other = open_key_socket(hosted(0, 2).key_socket);
  EXPECT_THAT(thrown<BadInput>(join(hosted(0, 2))), HasSubstr("another job with the same"));
}

TEST_F(HostedTest, APortInUseNamesTheVariables) {
  const Fd taken = listen_on(interface_address("127.0.0.1"), "");
  JoinOptions options = join_options(0, 2, bound_address(taken.get()).to_string());
  options.host_coordinator = true;
  EXPECT_THAT(thrown<BadInput>(join(options)),
              AllOf(HasSubstr("is in use on 127.0.0.1"), HasSubstr("ASUP_COORDINATOR"),
                    HasSubstr("MASTER_PORT")));
}

TEST(JobOfOne, NeedsNobody) {
  Membership alone = Membership::join(JoinOptions{}, {});
  EXPECT_EQ(alone.roster().size(), 1);
  EXPECT_EQ(alone.self().id, 1u);
  EXPECT_EQ(alone.self().pid, getpid());
  alone.leave();
}

}  // namespace
}  // namespace asup::net
