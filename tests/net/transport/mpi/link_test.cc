// Links over MPI, under mpirun -n 2. Rank 0 runs the suite: over wires to itself, and over wires
// whose bytes all pass through rank 1 and back, so that both ends of every test are in one process
// and every byte crosses between two.
#include <gtest/gtest.h>

#include <list>
#include <thread>

#include "asup/net/transport/mpi/wire.h"
#include "tests/net/transport/link_suite.h"

namespace asup::net {
namespace {

const Deadline kNever = Deadline::max();

// Rank 0's two wires, and rank 1's, are told apart by their tags.
constexpr int kTagA = 1, kTagB = 2;
// What rank 0 tells rank 1 to do.
enum Order : int { relay = 1, end = 2 };

void tell(Order order) { MPI_Send(&order, 1, MPI_INT, 1, 0, MPI_COMM_WORLD); }

WirePair to_itself() {
  const auto group = MpiGroup::duplicate(MPI_COMM_SELF, kNever);
  return {std::make_unique<MpiWire>(group, 0, kTagA, kTagB),
          std::make_unique<MpiWire>(group, 0, kTagB, kTagA)};
}

WirePair through_rank_1() {
  tell(relay);
  const auto group = MpiGroup::duplicate(MPI_COMM_WORLD, kNever);
  return {std::make_unique<MpiWire>(group, 1, kTagA, kTagA),
          std::make_unique<MpiWire>(group, 1, kTagB, kTagB)};
}

// Moves what has come on one wire to the other, and the end of the one after it.
bool pass_on(Wire& from, Wire& to) {
  const ConstBytes there = from.peek(1, 1);
  if (there.empty() && from.closed()) to.end_writing();
  const std::size_t passed = to.write(std::array{there});
  from.skip(passed);
  return passed > 0;
}

// Rank 1's ends of rank 0's two wires.
struct Relay {
  explicit Relay(const std::shared_ptr<MpiGroup>& group)
      : a(group, 0, kTagA, kTagA), b(group, 0, kTagB, kTagB) {}
  bool progress() {
    const bool there = pass_on(a, b), back = pass_on(b, a);
    return there || back;
  }
  bool has_ended() const { return a.closed() && b.closed(); }

  MpiWire a, b;
};

int serve_rank_0() {
  std::list<Relay> relays;  // a test may make its next pair before it lets the last one go
  int order = 0;
  MPI_Request next = MPI_REQUEST_NULL;
  for (;;) {
    if (next == MPI_REQUEST_NULL) MPI_Irecv(&order, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &next);
    int told = 0;
    MPI_Test(&next, &told, MPI_STATUS_IGNORE);
    if (told != 0 && order == end) return 0;
    if (told != 0) relays.emplace_back(MpiGroup::duplicate(MPI_COMM_WORLD, kNever));
    bool moved = false;
    for (Relay& relay : relays) moved = relay.progress() || moved;
    relays.remove_if([](const Relay& relay) { return relay.has_ended(); });
    if (!moved) std::this_thread::yield();
  }
}

TEST(MpiWire, DeclaresWhatItCannotDo) {
  const WireAbilities abilities = to_itself().first->abilities();
  EXPECT_FALSE(abilities.sees_death);
  EXPECT_FALSE(abilities.keyed);
  EXPECT_FALSE(abilities.shares_memory);
}

// Nobody reads: the writer is stopped by what is under way, and all of it comes in the end.
TEST(MpiWire, TakesNoMoreThanItsMessages) {
  const auto [one, other] = to_itself();
  const auto bytes = random_bytes(kMpiMessage, 1);
  const std::array piece{ConstBytes(bytes)};
  std::size_t written = 0, read = 0;
  // The reader's posted receives take as many again.
  for (int i = 0; i < 1000; ++i) written += one->write(piece);
  EXPECT_LE(written, 2 * kMpiMessages * kMpiMessage);
  while (read < written) {
    const std::size_t n = other->peek(1, 1).size();
    other->skip(n);
    read += n;
  }
  EXPECT_EQ(one->write(piece), kMpiMessage);
}

INSTANTIATE_TEST_SUITE_P(Kinds, LinkSuite,
                         ::testing::Values(Kind{"mpi_to_itself", to_itself},
                                           Kind{"mpi_through_rank_1", through_rank_1}),
                         name_of_kind);

}  // namespace
}  // namespace asup::net

int main(int argc, char** argv) {
  using namespace asup::net;
  ::testing::InitGoogleTest(&argc, argv);
  const MpiProcess& process = MpiProcess::get();
  if (process.size() != 2) {
    std::fprintf(stderr, "run it by mpirun -n 2, not %d\n", process.size());
    return 2;
  }
  if (process.rank() == 1) return serve_rank_0();
  const int status = RUN_ALL_TESTS();
  tell(end);
  return status;
}
