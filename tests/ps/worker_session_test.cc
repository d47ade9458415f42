#include "asup/ps/worker_session.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/ps/group.h"

namespace asup::ps::testing {
namespace {

constexpr Range kShard{0, 100};

void push(WorkerSession& session, std::uint64_t number, float value) {
  const std::vector<float> gradient(kShard.size(), value);
  const Piece piece{number, kShard, {}};
  const net::ConstBytes payload = std::as_bytes(std::span(gradient));
  const net::Bytes room = session.room_for(piece, payload.size());
  ASSERT_EQ(room.size(), payload.size());
  std::copy(payload.begin(), payload.end(), room.begin());
  EXPECT_EQ(session.add(piece, room), "");
  EXPECT_EQ(session.commit({number, {}}, {0.1}), "");
}

// As a server does when it lets the worker go on with these parameters.
void release(WorkerSession& session, float parameters,
             const std::vector<std::uint64_t>& applied = {}) {
  session.set_pushes_aside(applied, true);
  std::fill_n(session.target(), kShard.size(), parameters);
  std::fill_n(session.backup(), kShard.size(), parameters);
  for (const std::uint64_t number : applied) session.forget_push(number);
}

// A push that waits while its worker goes on, to do what a lost one had, is of the parameters that
// the worker had then, and the next one of those that it has now.
TEST(WorkerSession, APushThatIsSetAsideKeepsWhatItWasComputedFrom) {
  asup::testing::run_ranks(1, net::LinkKind::inproc, [](Job& job) {
    WorkerSession session(net::workers_and_servers(job).mesh, 0);
    ASSERT_EQ(session.open(kShard, {kShard}, {}), "");
    release(session, 1);
    push(session, 1, 10);
    EXPECT_EQ(session.seen(1)[7], 1);
    release(session, 2);
    push(session, 2, 20);
    EXPECT_EQ(session.gradient(1)[0].data[7], 10);
    EXPECT_EQ(session.seen(1)[7], 1);
    EXPECT_EQ(session.gradient(2)[0].data[7], 20);
    EXPECT_EQ(session.seen(2)[7], 2);
    release(session, 3, {1, 2});
    EXPECT_FALSE(session.has_push(1) || session.has_push(2));
    push(session, 3, 30);
    EXPECT_EQ(session.seen(3)[7], 3);
  });
}

}  // namespace
}  // namespace asup::ps::testing
