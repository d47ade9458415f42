// Sparse gradients of hosts with several ranks: the papers' equations, with a host for a worker.
#include "asup/sync/compressors/host_sparse_gradients.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/sync/compressors/sparse_training.h"

namespace asup {
namespace {

using net::LinkKind;
using testing::distance;
using testing::Given;
using testing::snapshot;
using testing::sparse;
using testing::train_ranks;
using torch::Tensor;
using torch::optim::SGDOptions;

using Hosts = std::vector<int>;
using Training = testing::SparseTraining<Given>;

float off(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<float>(); }

// Deep gradient compression of the weight as the paper has it, in one process: a host has the sum
// of its ranks' gradients, and chooses in each of its blocks.
struct ByThePaper {
  ByThePaper(Hosts hosts, int places, double momentum, bool nesterov)
      : hosts(std::move(hosts)), places(places), momentum(momentum), nesterov(nesterov) {
    u.assign(std::set(this->hosts.begin(), this->hosts.end()).size(), torch::zeros({2000}));
    v = u;
    weight = Given().weight.detach().flatten().clone();
  }
  void step(int number, double lr, double share) {
    Tensor sum = torch::zeros({2000});
    for (std::size_t host = 0; host < u.size(); ++host) {
      Tensor g = torch::zeros({2000});
      for (std::size_t rank = 0; rank < hosts.size(); ++rank)
        if (hosts[rank] == static_cast<int>(host))
          g += Given::gradient(number, static_cast<int>(rank)).flatten();
      u[host] = nesterov ? momentum * (u[host] + g) : momentum * u[host] + g;
      v[host] = v[host] + (nesterov ? u[host] + g : u[host]);
      for (int place = 0; place < places; ++place) {
        const auto block = collective::cut(2000, places, place, 16);
        const auto begin = static_cast<std::int64_t>(block.begin);
        const auto size = static_cast<std::int64_t>(block.size());
        const auto most = static_cast<std::int64_t>(std::ceil(share * static_cast<double>(size)));
        const Tensor chosen = begin + std::get<1>(v[host].narrow(0, begin, size).abs().topk(most));
        sum.index_add_(0, chosen, testing::take(v[host], chosen));
        u[host].index_fill_(0, chosen, 0);
      }
    }
    weight -= lr * sum / static_cast<double>(hosts.size());
  }
  std::vector<Tensor> u, v;
  Tensor weight;
  const Hosts hosts;
  const int places;
  const double momentum;
  const bool nesterov;
};

TEST(HostSparseGradients, FollowThePaperWithAHostForAWorker) {
  for (const auto& [hosts, places] : {std::pair(Hosts{0, 0, 1, 1}, 2),
                                      {{0, 1, 0, 1, 0}, 2},
                                      {{1, 0, 1}, 1},
                                      {{0, 1, 2}, 1},
                                      {{0, 0, 0}, 3}})
    for (const bool nesterov : {false, true}) {
      const int warmup = nesterov ? 6 : 0;
      train_ranks(static_cast<int>(hosts.size()), LinkKind::shm, [&](Communicator& communicator) {
        const auto options = sparse(0.01, true, static_cast<std::uint64_t>(warmup), hosts);
        Training training(communicator, options, SGDOptions(0.1).momentum(0.9).nesterov(nesterov));
        ByThePaper paper(hosts, places, 0.9, nesterov);
        for (int step = 0; step < 12; ++step) {
          training.step(step);
          paper.step(
              step, 0.1,
              sync::density_in({.density = 0.01, .warmup = static_cast<std::uint64_t>(warmup)},
                               static_cast<std::uint64_t>(step)));
          ASSERT_LT(off(training.model.weight.detach().flatten(), paper.weight), 4e-6)
              << "step " << step << " of " << hosts.size() << " ranks";
        }
        training.replica->check_equal();
      });
    }
}

// Two weights, whose gradients come in another order than they are expected in, so that after the
// first step buckets are laid out anew, and what is kept moves between ranks.
struct Two : torch::nn::Module {
  Two()
      : first(register_parameter("first", testing::numbers({40, 50}, 1))),
        second(register_parameter("second", testing::numbers({30, 70}, 2))) {}
  static std::array<Tensor, 2> gradients(int step, int rank) {
    const auto seed = static_cast<std::uint64_t>(1000 + 20 * step + rank);
    return {testing::numbers({40, 50}, seed), testing::numbers({30, 70}, seed + 10)};
  }
  Tensor loss(int step, int rank) {
    const auto given = gradients(step, rank);
    return (second * given[1]).sum() + (first * given[0]).sum();
  }
  Tensor first, second;
};

// Without a momentum, what has been applied and what is kept are all gradients together.
TEST(HostSparseGradients, LoseNothing) {
  train_ranks(4, LinkKind::inproc, [&](Communicator& communicator) {
    testing::SparseTraining<Two> training(communicator, sparse(0.002, false, 2, {0, 0, 1, 0}),
                                          SGDOptions(1));
    const auto begin = snapshot(training.model);
    std::array<Tensor, 2> sum{torch::zeros({40, 50}), torch::zeros({30, 70})};
    for (int step = 0; step < 8; ++step) {
      training.step(step);
      for (int rank = 0; rank < 4; ++rank)
        for (std::size_t i = 0; i < 2; ++i) sum[i] += Two::gradients(step, rank)[i] / 4;
    }
    const auto now = snapshot(training.model);
    const auto parts = training.replica->state().parts;
    ASSERT_EQ(parts.size(), 2u);
    for (std::size_t part = 0; part < 2; ++part) {
      const std::size_t i = parts[part].name == "first" ? 0 : 1;
      const Tensor kept = training.mean_kept(part);
      EXPECT_GT(kept.norm().item<double>(), 10);
      EXPECT_LT(off(begin[i] - now[i] + kept, sum[i]), 1e-5) << parts[part].name;
    }
    training.replica->check_equal();
  });
}

// As long as a host's samples are as many as in the step before, which of its ranks has them does
// not count.
TEST(HostSparseGradients, AreWeighedByTheSamplesOfAHost) {
  train_ranks(3, LinkKind::inproc, [&](Communicator& communicator) {
    Training training(communicator, sparse(0.002, false, 0, {0, 0, 1}), SGDOptions(1));
    const Tensor begin = training.model.weight.detach().clone();
    Tensor sum = torch::zeros({40, 50});
    constexpr std::array<std::array<int, 3>, 4> kSamples{
        {{1, 3, 4}, {3, 1, 4}, {6, 2, 8}, {0, 8, 8}}};
    for (int step = 0; step < 4; ++step) {
      const auto& samples = kSamples[static_cast<std::size_t>(step)];
      training.replica->describe_batch(
          static_cast<std::uint64_t>(samples[static_cast<std::size_t>(communicator.rank())]), 0);
      training.step(step);
      const double all = samples[0] + samples[1] + samples[2];
      for (int rank = 0; rank < 3; ++rank)
        sum += Given::gradient(step, rank) * (samples[static_cast<std::size_t>(rank)] / all);
    }
    const Tensor kept = training.mean_kept() / (16.0 / 3);
    EXPECT_GT(kept.norm().item<double>(), 10);
    EXPECT_LT(off(begin - training.model.weight.detach() + kept, sum), 1e-5);
    training.replica->check_equal();
  });
}

TEST(HostSparseGradients, ASkippedStepLeavesWhatIsKeptAsItWas) {
  train_ranks(3, LinkKind::inproc, [](Communicator& communicator) {
    const auto options = sparse(0.01, true, 4, {0, 0, 1});
    Training with(communicator, options, SGDOptions(0.1).momentum(0.9));
    Training without(communicator, options, SGDOptions(0.1).momentum(0.9));
    for (int step = 0; step < 6; ++step) {
      with.step(step);
      without.step(step);
      // After the warm-up, whose exchanges count.
      if (step == 4) with.step(17, communicator.rank() == 1 ? NAN : 1);
    }
    EXPECT_EQ(with.replica->stats().skipped, 1u);
    EXPECT_EQ(distance(snapshot(with.model), snapshot(without.model)), 0);
  });
}

TEST(HostSparseGradients, GoOnFromACheckpointToTheSameBits) {
  train_ranks(4, LinkKind::inproc, [](Communicator& communicator) {
    const auto options = sparse(0.01, true, 0, {0, 0, 1, 1});
    const auto how = SGDOptions(0.1).momentum(0.9);
    testing::SparseTraining<Two> whole(communicator, options, how);
    for (int step = 0; step < 4; ++step) whole.step(step);
    const ReplicaState saved = whole.saved();
    auto ordered = options;
    ordered.observed = whole.replica->observed();
    testing::SparseTraining<Two> second(communicator, ordered, how);
    {
      torch::NoGradGuard no_grad;
      second.model.first.copy_(whole.model.first);
      second.model.second.copy_(whole.model.second);
    }
    second.replica->restore(saved);
    for (int step = 4; step < 9; ++step) {
      whole.step(step);
      second.step(step);
    }
    EXPECT_EQ(distance(snapshot(second.model), snapshot(whole.model)), 0);
  });
}

// Whoever is to keep a number on other hosts gets it from whoever has kept it; the mean over ranks
// stays.
TEST(HostSparseGradients, GoOnOnOtherHosts) {
  train_ranks(4, LinkKind::inproc, [](Communicator& communicator) {
    const auto how = SGDOptions(0.1).momentum(0.9);
    Training first(communicator, sparse(0.01, true, 0, {0, 0, 1, 1}), how);
    for (int step = 0; step < 4; ++step) first.step(step);
    const std::array means{first.mean_kept(0), first.mean_kept(1)};
    ReplicaState saved = first.saved();
    for (const Hosts& hosts :
         {Hosts{}, Hosts{0, 1, 1, 0}, Hosts{0, 0, 0, 1}, Hosts{0, 0, 0, 0}, Hosts{0, 1, 2, 2}}) {
      Training next(communicator, sparse(0.01, true, 0, hosts), how);
      next.replica->restore(saved);
      for (std::size_t i = 0; i < 2; ++i) EXPECT_LT(off(next.mean_kept(i), means[i]), 1e-5);
      saved = next.saved();
      next.step(4);
      next.replica->check_equal();
    }
  });
}

// A host's part of a tensor's average, which lies in two blocks here.
TEST(HostSparseGradients, AreClippedByHosts) {
  for (const bool describes : {false, true})
    train_ranks(4, LinkKind::inproc, [&](Communicator& communicator) {
      constexpr double kNorm = 0.5;
      AllReduceOptions options;
      options.compressor =
          sync::dgc({.density = 0.5, .momentum = {}, .clip_norm = kNorm, .hosts = {0, 0, 1, 1}});
      options.clip_norm = kNorm;
      Training training(communicator, options, SGDOptions(1).momentum(0.5));
      const Tensor weight = training.model.weight.detach().clone();
      // Few numbers, so that all travel: the same on both hosts, but for their size.
      Tensor gradient = torch::zeros({40, 50});
      gradient[3] = testing::numbers({50}, 4);
      gradient[33] = testing::numbers({50}, 5);
      if (describes) training.replica->describe_batch(3, 0);
      ((training.model.weight * gradient).sum() * (communicator.rank() < 2 ? 1 : 1e-3) +
       training.model.bias.sum())
          .backward();
      training.replica->step();
      const double norm = gradient.norm().item<double>();
      const Tensor expected = gradient * (kNorm * std::sqrt(2.0) / norm + 1e-3) / 2;
      const Tensor moved = weight - training.model.weight.detach();
      EXPECT_TRUE(torch::allclose(moved, expected, 1.0 / 256, 1e-6));  // as bf16 has it
      training.replica->check_equal();
    });
}

// Places that every host has keep all of it, each its part; others nothing.
TEST(HostSparseGradients, KeepABucketOnceAHost) {
  train_ranks(5, LinkKind::inproc, [](Communicator& communicator) {
    sync::HostSparseGradients compressor(communicator, {.momentum = {}, .hosts = {0, 0, 1, 1, 1}});
    const layout::Range own = compressor.keeps_of(2000);
    std::array<std::int64_t, 2> mine{static_cast<std::int64_t>(own.begin),
                                     static_cast<std::int64_t>(own.end)};
    std::vector<std::int64_t> all(10);
    communicator.all_gather(buffer_of(std::span(mine)), buffer_of(std::span(all))).or_throw();
    EXPECT_EQ(all,
              (std::vector<std::int64_t>{0, 1008, 1008, 2000, 0, 1008, 1008, 2000, 2000, 2000}));
  });
}

}  // namespace
}  // namespace asup
