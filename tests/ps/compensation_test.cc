// Delay compensation (DC-ASGD, Zheng et al. 2017): a late gradient is corrected by how far the
// parameters have moved from those that its worker had, which the server must know.
#include <gtest/gtest.h>

#include <barrier>
#include <cmath>

#include "tests/ps/group.h"

namespace asup::ps::testing {
namespace {

using net::LinkKind;

constexpr Seconds kTimeout{120};
constexpr std::uint64_t kElements = 40'000;
constexpr double kLr = 0.2, kLambda = 0.7;
constexpr double kShare = 0.5;  // of a step, that a push of one of two workers is

float first_parameter(std::uint64_t i) { return static_cast<float>(i % 13) * 0.25f - 1.5f; }
double gradient_of(int worker, int push, std::uint64_t i) {
  return 0.3 + 0.1 * worker + 0.2 * push + 0.05 * static_cast<double>(i % 7);
}

// What servers should do with gradients that come in this order, each from its worker's last
// parameters.
struct Reckoned {
  explicit Reckoned(std::uint64_t element) : i(element) {
    now = first_parameter(i);
    seen[0] = seen[1] = now;
  }
  void push(int worker) {
    const double g = gradient_of(worker, pushes[worker]++, i);
    now -= kLr * kShare * (g + kLambda * g * g * (now - seen[worker]));
    seen[worker] = now;
  }
  std::uint64_t i;
  double now, seen[2];
  int pushes[2] = {0, 0};
};

class Compensation : public ::testing::TestWithParam<LinkKind> {};

// Worker 0 comes late with a gradient from the first parameters, then worker 1 with one from before
// that, and so on: each is as late as it is, and none by parameters of another version or worker.
TEST_P(Compensation, IsByTheParametersThatTheWorkerHad) {
  constexpr int kOrder[] = {1, 1, 1, 0, 1, 0, 0, 1, 1, 0};
  ServerSetup setup = setup_of({kElements}, {.kind = pace::Kind::asp});
  setup.compensation = kLambda;
  std::barrier turn(2);
  run_threads({2, 2, GetParam()}, [&](int rank, net::MemberGroup group) {
    Client client(group, setup, {}, kTimeout);
    for (std::uint64_t i = 0; rank == 0 && i < kElements; ++i)
      client.parameters()[i] = first_parameter(i);
    client.begin(rank == 0);
    client.arrive();
    Release release = client.wait();
    const auto memory = group.mesh.allocate(kElements * sizeof(float));
    auto* gradient = reinterpret_cast<float*>(memory->bytes().data());
    int pushes = 0;
    for (const int worker : kOrder) {
      turn.arrive_and_wait();
      if (worker != rank) continue;
      for (std::uint64_t i = 0; i < kElements; ++i)
        gradient[i] = static_cast<float>(gradient_of(rank, pushes, i));
      ++pushes;
      client.push({0, kElements}, gradient);
      Figures figures;
      figures.version = release.version;
      figures.samples = 1;
      client.commit(figures, std::vector<double>{kLr});
      release = client.wait();
    }
    turn.arrive_and_wait();
    for (std::uint64_t i = 0; i < kElements; ++i) {
      Reckoned reckoned(i);
      for (const int worker : kOrder) reckoned.push(worker);
      ASSERT_NEAR(client.parameters()[i], reckoned.seen[rank], 1e-5) << "element " << i;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Links, Compensation,
                         ::testing::Values(LinkKind::inproc, LinkKind::shm, LinkKind::tcp),
                         [](const auto& info) { return asup::testing::name_of(info.param); });

}  // namespace
}  // namespace asup::ps::testing
