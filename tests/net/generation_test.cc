// Members that come later than the others, and members that are lost: the generations of a job.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <thread>

#include "asup/base/error.h"
#include "asup/net/membership/address.h"
#include "asup/net/membership/coordinator.h"
#include "asup/net/membership/membership.h"

namespace asup::net {
namespace {

using testing::HasSubstr;

Member listening_at(const std::string& address) {
  Member self;
  self.tcp_address = address;
  return self;
}

// Forks a member that joins and then waits for its end. Made before this process has threads.
class MemberProcess {
 public:
  explicit MemberProcess(JoinOptions options) {
    int fds[2];
    check(pipe(fds) == 0, "pipe");
    pid_ = fork();
    if (pid_ > 0) {
      ::close(fds[0]);
      address_ = fds[1];
      return;
    }
    ::close(fds[1]);
    char text[200] = {};
    if (read(fds[0], text, sizeof text - 1) <= 0) _exit(1);
    options.coordinator = text;
    const Membership member = Membership::join(options, listening_at("127.0.0.1:1"));
    for (;;) pause();
  }
  ~MemberProcess() {
    if (pid_ > 0) die();
    ::close(address_);
  }
  void start(const std::string& coordinator) {
    check(write(address_, coordinator.data(), coordinator.size()) > 0, "write");
  }
  // When it returns, the process is gone, and its connections are closed.
  void die() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  pid_t pid_ = 0;
  int address_ = -1;
};

class GenerationTest : public testing::Test {
 protected:
  CoordinatorOptions options(int size, int servers = 0) {
    return {.listen = interface_address("127.0.0.1"),
            .key = key_,
            .size = size,
            .servers = servers,
            .join_timeout = timeout_};
  }

  JoinOptions identity(int rank, int size, int servers = 0) {
    JoinOptions options;
    options.rank = rank;
    options.size = size;
    options.servers = servers;
    options.key = key_;
    options.join_timeout = timeout_;
    return options;
  }

  std::future<Membership> join(JoinOptions options, const Coordinator& coordinator,
                               const std::string& own_address = "127.0.0.1:1") {
    options.coordinator = coordinator.address();
    return std::async(std::launch::async,
                      [=] { return Membership::join(options, listening_at(own_address)); });
  }

  std::future<Membership> join_later(const Coordinator& coordinator) {
    JoinOptions options = identity(0, 1);
    options.joins = true;
    return join(options, coordinator, "127.0.0.1:77");
  }

  std::vector<Membership> join_all(int size, const Coordinator& coordinator, int servers = 0) {
    std::vector<std::future<Membership>> coming;
    for (int rank = 0; rank < size; ++rank)
      coming.push_back(join(identity(rank, size, servers), coordinator));
    std::vector<Membership> members;
    for (auto& one : coming) members.push_back(one.get());
    return members;
  }

  static std::future<std::optional<Roster>> renew(Membership& member, int port) {
    return std::async(std::launch::async, [&member, port] {
      return member.renew(listening_at(fmt::format("127.0.0.1:{}", port)), after(Seconds(60)));
    });
  }

  static void wait_for_newcomers(const Membership& member) {
    for (const Deadline deadline = after(Seconds(60)); !member.newcomers();) {
      ASSERT_LT(Clock::now(), deadline) << "nobody says that somebody waits";
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  const Key key_ = random_key();
  Seconds timeout_{60};
};

TEST_F(GenerationTest, ANewcomerIsTakenInWhenAllAreReady) {
  Coordinator coordinator(options(2));
  auto members = join_all(2, coordinator);
  EXPECT_FALSE(members[0].newcomers());
  auto later = join_later(coordinator);
  for (const Membership& member : members) wait_for_newcomers(member);
  auto first = renew(members[0], 50);
  EXPECT_EQ(first.wait_for(std::chrono::milliseconds(200)), std::future_status::timeout)
      << "rank 1 is not ready yet";
  auto second = renew(members[1], 51);
  const Membership newcomer = later.get();

  const Roster roster = *first.get();
  EXPECT_EQ(roster.generation, 2u);
  EXPECT_EQ(*second.get(), roster);
  EXPECT_EQ(newcomer.roster(), roster);
  ASSERT_EQ(roster.size(), 3);
  EXPECT_EQ(newcomer.self().rank, 2);
  EXPECT_EQ(newcomer.self().id, 3u);
  EXPECT_EQ(roster.members[0].tcp_address, "127.0.0.1:50") << "where it listens now";
  EXPECT_EQ(roster.members[1].tcp_address, "127.0.0.1:51");
  EXPECT_EQ(roster.members[2].tcp_address, "127.0.0.1:77");
  EXPECT_FALSE(members[0].newcomers()) << "it is in";
  EXPECT_TRUE(members[0].is_founder(roster.members[1]));
  EXPECT_FALSE(members[0].is_founder(roster.members[2]));
}

TEST_F(GenerationTest, WhoComesBeforeAllAreThereIsTakenInAfterwards) {
  Coordinator coordinator(options(2));
  auto early = join_later(coordinator);
  auto members = join_all(2, coordinator);
  for (const Membership& member : members) wait_for_newcomers(member);
  auto first = renew(members[0], 50), second = renew(members[1], 51);
  EXPECT_EQ(early.get().roster().size(), 3);
}

TEST_F(GenerationTest, TheLostAreLeftOutAndTheOthersMoveUp) {
  MemberProcess victim(identity(1, 4, 1));
  Coordinator coordinator(options(4, 1));
  victim.start(coordinator.address());
  std::vector<std::future<Membership>> coming;
  for (const int rank : {0, 2, 3}) coming.push_back(join(identity(rank, 4, 1), coordinator));
  std::vector<Membership> members;
  for (auto& one : coming) members.push_back(one.get());
  victim.die();
  std::vector<std::future<std::optional<Roster>>> rosters;
  for (Membership& member : members) {
    while (member.gone().empty()) std::this_thread::yield();
    EXPECT_EQ(member.gone()[0].member.rank, 1);
    rosters.push_back(renew(member, 50));
  }
  for (auto& one : rosters) {
    const Roster roster = *one.get();
    ASSERT_EQ(roster.size(), 3);
    EXPECT_EQ(roster.roles(), (Roles{2, 1}));
    EXPECT_EQ(roster.members[1].id, 3u) << "it was rank 2";
    EXPECT_EQ(roster.members[1].rank, 1);
    EXPECT_EQ(roster.members[2].server, 0);
  }
  EXPECT_TRUE(members[0].gone().empty()) << "nobody of this generation";
  EXPECT_EQ(members[1].self().rank, 1);
}

TEST_F(GenerationTest, ANewcomerThatWentAwayAgainIsNotWaitedFor) {
  JoinOptions options_of_guest = identity(0, 1);
  options_of_guest.joins = true;
  MemberProcess guest(options_of_guest);
  Coordinator coordinator(options(1));
  auto members = join_all(1, coordinator);
  guest.start(coordinator.address());
  wait_for_newcomers(members[0]);
  guest.die();
  // By the time that it has answered somebody who comes now, the coordinator has seen it.
  EXPECT_THROW(join(identity(0, 1), coordinator).get(), BadInput);
  EXPECT_EQ(renew(members[0], 50).get()->size(), 1);
}

TEST_F(GenerationTest, WhoDoesNotComeToTheNextGenerationIsNamed) {
  timeout_ = Seconds(3);  // also what members have to join
  Coordinator coordinator(options(2));
  auto members = join_all(2, coordinator);
  auto alone = renew(members[0], 50);
  try {
    alone.get();
    FAIL() << "rank 1 never came";
  } catch (const JobFailed& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank 1 did not come to the next generation within 3 s"));
  }
}

TEST_F(GenerationTest, AServerLearnsThatNoWorkerIsLeft) {
  Coordinator coordinator(options(2, 1));
  auto members = join_all(2, coordinator, 1);
  auto server = renew(members[1], 50);
  members[0].leave();
  EXPECT_EQ(server.get(), std::nullopt);
}

TEST_F(GenerationTest, ANewcomerIsToldThatTheJobIsOver) {
  Coordinator coordinator(options(1));
  auto members = join_all(1, coordinator);
  auto later = join_later(coordinator);
  wait_for_newcomers(members[0]);
  members[0].leave();
  EXPECT_THAT([&] { later.get(); },
              testing::ThrowsMessage<JobFailed>(HasSubstr("the job is over")));
}

// However long the others may be waited for.
TEST_F(GenerationTest, ANewcomerDoesNotWaitForAJobThatHasEnded) {
  timeout_ = Seconds(3600);
  std::optional<Coordinator> coordinator(options(1));
  const std::string address = coordinator->address();
  coordinator.reset();
  JoinOptions newcomer = identity(0, 1);
  newcomer.joins = true;
  newcomer.coordinator = address;
  EXPECT_THAT([&] { Membership::join(newcomer, listening_at("127.0.0.1:77")); },
              testing::ThrowsMessage<JobFailed>(HasSubstr("could not reach the coordinator")));
}

TEST_F(GenerationTest, NewcomersAreRefusedWithAReason) {
  Coordinator coordinator(options(1));
  auto members = join_all(1, coordinator);
  auto early = join_later(coordinator);
  wait_for_newcomers(members[0]);
  members[0].refuse_newcomers("there is no chair for them");
  EXPECT_THROW(early.get(), BadInput);
  EXPECT_THAT([&] { join_later(coordinator).get(); },
              testing::ThrowsMessage<BadInput>(HasSubstr("there is no chair for them")));
  EXPECT_EQ(renew(members[0], 50).get()->members.size(), 1u) << "those who are there go on";
}

TEST_F(GenerationTest, ANewcomerThatIsNotTakenInSaysSo) {
  Coordinator coordinator(options(1));
  auto members = join_all(1, coordinator);
  timeout_ = Seconds(3);  // also what it has to reach the coordinator
  auto later = join_later(coordinator);
  EXPECT_THAT([&] { later.get(); }, testing::ThrowsMessage<JobFailed>(
                                        HasSubstr("did not take this process in within 3 s")));
}

TEST_F(GenerationTest, ALostServerEndsTheJob) {
  MemberProcess server(identity(1, 2, 1));
  Coordinator coordinator(options(2, 1));
  server.start(coordinator.address());
  Membership worker = join(identity(0, 2, 1), coordinator).get();
  server.die();
  auto renewing = renew(worker, 50);
  EXPECT_THAT([&] { renewing.get(); },
              testing::ThrowsMessage<JobFailed>(HasSubstr("a server was lost")));
}

}  // namespace
}  // namespace asup::net
