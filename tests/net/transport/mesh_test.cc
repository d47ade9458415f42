// A mesh whose parts throw while its loop moves them: whom it concerns is told, by name, and the
// process goes on.
#include "asup/net/transport/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <latch>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "asup/base/error.h"
#include "asup/net/member_group.h"
#include "asup/net/transport/messenger.h"
#include "tests/support/ranks.h"

namespace asup::net {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr Seconds kLimit{60};

// Throws at its first look, where it is told to.
struct Part : Mesh::Mover {
  bool progress() override {
    if (!std::exchange(throws, false)) return false;
    throw Error("the first look is too much");
  }
  bool busy() override { return false; }
  void on_note(int, std::uint32_t, std::string_view text) override { heard = text; }
  void failed(const std::string& why) override { failure = why; }

  bool throws = false;
  std::string heard, failure;
};

// Comes back when the loop's own thread has made it so.
void wait_for(Mesh& mesh, const std::function<bool()>& done) {
  const Deadline deadline = after(kLimit);
  for (bool so = false; !so; std::this_thread::sleep_for(std::chrono::milliseconds(2))) {
    ASSERT_LT(Clock::now(), deadline);
    std::atomic<bool> looked{false}, is_so{false};
    mesh.loop().post([&] {
      is_so = done();
      looked = true;
    });
    while (!looked) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    so = is_so;
  }
}

class MeshOnEveryLink : public ::testing::TestWithParam<LinkKind> {
 protected:
  static void run_ranks(const std::function<void(Job&)>& body) {
    asup::testing::run_ranks(2, GetParam(), body);
  }
};

TEST_P(MeshOnEveryLink, AMoverThatThrowsFailsAlone) {
  run_ranks([](Job& job) {
    Mesh& mesh = job.mesh();
    Part sound, broken;
    broken.throws = true;
    {
      const MeshLock lock(mesh.loop());
      mesh.add(1, broken);
      mesh.add(2, sound);
      mesh.send_note(1 - job.rank(), 2, 0, "good day");
    }
    wait_for(mesh, [&] { return !broken.failure.empty() && !sound.heard.empty(); });
    const MeshLock lock(mesh.loop());
    EXPECT_EQ(broken.failure, "the first look is too much");
    EXPECT_EQ(sound.failure, "");
    EXPECT_EQ(sound.heard, "good day");
    EXPECT_NE(mesh.end_of(1 - job.rank()), LinkEnd::lost);
    mesh.remove(1);
    mesh.remove(2);
  });
}

TEST_P(MeshOnEveryLink, APostedActionThatThrowsFailsWhatWaitsAndKeepsNoOtherFromIt) {
  run_ranks([](Job& job) {
    Mesh& mesh = job.mesh();
    Part part;
    {
      const MeshLock lock(mesh.loop());
      mesh.add(1, part);
    }
    bool came = false;
    mesh.loop().post([] { throw std::bad_alloc(); });
    mesh.loop().post([&] { came = true; });
    wait_for(mesh, [&] { return came; });
    const MeshLock lock(mesh.loop());
    EXPECT_EQ(part.failure, "this process is out of memory");
    mesh.remove(1);
  });
}

enum class Fault { no_memory_for_it, no_memory_to_work, nobody_to_tell, job_failed, senders };

// Takes messages as badly as it is told.
class BadHandler : public Messenger::Handler {
 public:
  BadHandler(Job& job, Fault fault) : fault_(fault) {
    const MeshLock lock(job.mesh().loop());
    messenger.emplace(job.mesh(), job.next_service_id(), std::vector{0, 1},
                      static_cast<Messenger::Handler&>(*this));
    messenger->open();
  }
  Bytes room_for(int, ConstBytes, std::uint64_t) override {
    if (fault_ == Fault::no_memory_for_it || fault_ == Fault::nobody_to_tell)
      throw std::bad_alloc();
    return {};
  }
  void arrived(int, ConstBytes, Bytes) override {
    if (fault_ == Fault::no_memory_to_work) throw std::bad_alloc();
    if (fault_ == Fault::job_failed) throw JobFailed("this is the end");
    if (fault_ == Fault::senders) throw Error("it makes no sense");
  }
  void gone(int, LinkEnd) override { is_gone = true; }
  void failed(const std::string& why) override {
    if (fault_ == Fault::nobody_to_tell) return Messenger::Handler::failed(why);
    failure = why;
  }

  bool is_gone = false;
  std::string failure;
  std::optional<Messenger> messenger;

 private:
  const Fault fault_;
};

// What rank 0 has to say for itself when it could not take a message of rank 1, and of the link;
// and what its watcher hears of that.
struct TakenBadly {
  std::string failure, link;
  std::optional<LinkNews> news{};
};

// `early`: the message is there before rank 0 has a handler, as far as time tells.
TakenBadly taken_badly(LinkKind links, Fault fault, bool early = false) {
  const bool ends_link = fault == Fault::senders || fault == Fault::nobody_to_tell;
  TakenBadly result;
  std::latch both_are_ready(2), is_sent(2);
  asup::testing::run_ranks(2, links, [&](Job& job) {
    Mesh& mesh = job.mesh();
    std::optional<BadHandler> handler;
    if (job.rank() == 0) {
      const MeshLock lock(mesh.loop());
      mesh.watch([&](int, LinkNews news) { result.news = news; });
    }
    if (job.rank() == 1 || !early) handler.emplace(job, fault);
    both_are_ready.arrive_and_wait();
    if (job.rank() == 1) {
      const MeshLock lock(mesh.loop());
      handler->messenger->send_kept(0, {}, std::vector<std::byte>(100'000));
    }
    is_sent.arrive_and_wait();
    if (job.rank() == 0) {
      if (early) std::this_thread::sleep_for(std::chrono::milliseconds(50));
      if (early) handler.emplace(job, fault);
      wait_for(mesh, [&] { return !handler->failure.empty() || handler->is_gone; });
      const MeshLock lock(mesh.loop());
      result.failure = handler->failure;
      result.link = mesh.end_of(1) == LinkEnd::open ? "is open" : mesh.describe_end(1);
      mesh.send_note(1, 99, 0, "that was it");
    }
    Part part;
    if (job.rank() == 1 && !ends_link) {
      const MeshLock lock(mesh.loop());
      mesh.add(99, part);
      EXPECT_TRUE(mesh.loop().drive([&] { return !part.heard.empty(); }, after(kLimit)));
      mesh.remove(99);
    } else if (job.rank() == 1) {
      const MeshLock lock(mesh.loop());
      EXPECT_TRUE(
          mesh.loop().drive([&] { return mesh.end_of(0) != LinkEnd::open; }, after(kLimit)));
    }
    const MeshLock lock(mesh.loop());
    handler->messenger.reset();
  });
  return result;
}

TEST_P(MeshOnEveryLink, MemoryThatIsNotThereIsNoFaultOfTheSenders) {
  for (const Fault fault : {Fault::no_memory_for_it, Fault::no_memory_to_work}) {
    const auto [failure, link, news] = taken_badly(GetParam(), fault);
    EXPECT_THAT(failure, AllOf(HasSubstr("rank 0 (pid"), HasSubstr("ran out of memory while it took"
                                                                   " a message of 100000 bytes "
                                                                   "from rank 1 (pid")));
    EXPECT_EQ(link, "is open");
  }
}

TEST_P(MeshOnEveryLink, NorIsItWhereNobodyIsToldOfIt) {
  const auto [failure, link, news] = taken_badly(GetParam(), Fault::nobody_to_tell);
  EXPECT_EQ(failure, "");
  EXPECT_THAT(link, StartsWith("was lost: rank 0 (pid"));
  EXPECT_THAT(link, HasSubstr("ran out of memory while it took a message of 100000 bytes from"));
  EXPECT_EQ(news, LinkNews::ended);
}

TEST_P(MeshOnEveryLink, AJobThatFailsByAMessageEndsNoLink) {
  const auto [failure, link, news] = taken_badly(GetParam(), Fault::job_failed);
  EXPECT_EQ(failure, "this is the end");
  EXPECT_EQ(link, "is open");
}

TEST_P(MeshOnEveryLink, AMessageThatMakesNoSenseEndsItsLink) {
  const auto [failure, link, news] = taken_badly(GetParam(), Fault::senders);
  EXPECT_EQ(failure, "");
  EXPECT_EQ(link, "was lost: what it sent cannot be taken: it makes no sense");
  EXPECT_EQ(news, LinkNews::breached);
}

TEST_P(MeshOnEveryLink, NorIsItTheCallersWhoOpensWhenItIsThere) {
  for (const Fault fault : {Fault::senders, Fault::nobody_to_tell}) {
    const auto [failure, link, news] = taken_badly(GetParam(), fault, /*early=*/true);
    EXPECT_EQ(failure, "");
    EXPECT_THAT(link, StartsWith("was lost: "));
    EXPECT_EQ(news, fault == Fault::senders ? LinkNews::breached : LinkNews::ended);
  }
}

INSTANTIATE_TEST_SUITE_P(Links, MeshOnEveryLink,
                         ::testing::Values(LinkKind::inproc, LinkKind::shm, LinkKind::tcp),
                         [](const auto& info) { return asup::testing::name_of(info.param); });

}  // namespace
}  // namespace asup::net
