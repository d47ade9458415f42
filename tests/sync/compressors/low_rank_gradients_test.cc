// Gradients that travel as matrices of low rank, against the paper's equations.
#include "asup/sync/compressors/low_rank_gradients.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/thrown.h"
#include "tests/sync/gradients/all_reduce_training.h"
#include "tests/sync/watched_communicator.h"

namespace asup {
namespace {

using net::LinkKind;
using testing::distance;
using ::testing::HasSubstr;
using testing::message_of;
using testing::snapshot;
using testing::train_ranks;
using torch::Tensor;
using torch::optim::SGD;
using torch::optim::SGDOptions;

// Two weights, of which one has the shape of a convolution's, and a bias. Gradients are given
// numbers: `common` directions that all ranks and steps share, and noise.
struct Given : torch::nn::Module {
  Given()
      : weight(register_parameter("weight", testing::numbers({40, 50}, 1))),
        kernel(register_parameter("kernel", testing::numbers({32, 8, 3, 3}, 2))),
        bias(register_parameter("bias", testing::numbers({50}, 3))) {}
  static Tensor gradient(torch::IntArrayRef shape, int step, int rank) {
    return testing::numbers(shape, static_cast<std::uint64_t>(100 + 10 * step + rank));
  }
  Tensor loss(int step, int rank) {
    return (weight * gradient(weight.sizes(), step, rank)).sum() +
           (kernel * gradient(kernel.sizes(), step, rank)).sum() + bias.sum();
  }
  Tensor weight, kernel, bias;
};

AllReduceOptions low_rank(int rank) { return {.compressor = sync::powersgd(rank)}; }

struct Training {
  Training(Communicator& communicator, const AllReduceOptions& options,
           SGDOptions how = SGDOptions(0.1).momentum(0.9))
      : communicator(communicator),
        optimizer(model.parameters(), how),
        replica(make_all_reduce_replica(communicator, model, optimizer, options)) {}

  void step(int number, float factor = 1) {
    optimizer.zero_grad();
    (factor * model.loss(number, communicator.rank())).backward();
    replica->step();
  }

  Communicator& communicator;
  Given model;
  SGD optimizer;
  std::unique_ptr<Replica> replica;
};

Tensor named(const std::string& name, const std::vector<sync::NamedTensor>& tensors) {
  for (const auto& [each, tensor] : tensors)
    if (each == name) return tensor;
  ADD_FAILURE() << "there is no " << name;
  return {};
}

// What all ranks keep of it, on average.
Tensor kept_of(const std::string& name, Training& training) {
  Tensor kept = named(name, training.replica->state().parts).clone();
  training.communicator.all_reduce(asup::buffer_of(kept), ReduceOp::average).or_throw();
  return kept;
}

// PowerSGD of one parameter as the paper has it, in one process: the step's update of the average.
struct ByThePaper {
  ByThePaper(int ranks, Tensor first_q) : q(std::move(first_q)) {
    for (int rank = 0; rank < ranks; ++rank) lost.push_back(Tensor());
  }
  Tensor step(const std::vector<Tensor>& gradients) {
    std::vector<Tensor> m;
    Tensor p, next;
    for (std::size_t rank = 0; rank < gradients.size(); ++rank) {
      m.push_back(lost[rank].defined() ? gradients[rank] + lost[rank] : gradients[rank]);
      const Tensor part = m.back().mm(q) / static_cast<double>(gradients.size());
      p = rank == 0 ? part : p + part;
    }
    p = std::get<0>(torch::linalg_qr(p));  // signs of columns may differ, which cancels below
    for (std::size_t rank = 0; rank < m.size(); ++rank) {
      const Tensor part = m[rank].t().mm(p) / static_cast<double>(m.size());
      next = rank == 0 ? part : next + part;
    }
    q = next;
    const Tensor average = p.mm(q.t());
    for (std::size_t rank = 0; rank < m.size(); ++rank) lost[rank] = m[rank] - average;
    return average;
  }
  std::vector<Tensor> lost;
  Tensor q;
};

TEST(LowRankGradients, FollowThePaper) {
  train_ranks(3, LinkKind::shm, [](Communicator& communicator) {
    constexpr double kRate = 0.1;
    Training training(communicator, low_rank(2), SGDOptions(kRate));
    const auto gradients = [](torch::IntArrayRef shape, int step) {
      std::vector<Tensor> all;
      for (int rank = 0; rank < 3; ++rank)
        all.push_back(Given::gradient(shape, step, rank).view({shape[0], -1}).to(torch::kDouble));
      return all;
    };
    // The first step is by directions that the code chose: the paper begins with what came of it.
    const auto begin = [&](const Tensor& parameter, const Tensor& right) {
      ByThePaper paper(3, right.view({2, -1}).t().to(torch::kDouble));
      return std::pair(parameter.detach().clone().to(torch::kDouble), paper);
    };
    training.step(0);
    const auto state = training.replica->state();
    auto [weight, of_weight] =
        begin(training.model.weight, named("right factor of weight", state.common));
    auto [kernel, of_kernel] =
        begin(training.model.kernel, named("right factor of kernel", state.common));
    for (int rank = 0; rank < 3; ++rank) {  // what each rank has lost in the first step
      for (auto& [paper, name] :
           {std::pair(&of_weight, "weight"), std::pair(&of_kernel, "kernel")}) {
        Tensor lost = named(name, state.parts).clone();
        communicator.broadcast(asup::buffer_of(lost), rank).or_throw();
        paper->lost[static_cast<std::size_t>(rank)] =
            lost.view({lost.size(0), -1}).to(torch::kDouble);
      }
    }
    for (int step = 1; step < 8; ++step) {
      training.step(step);
      weight -= kRate * of_weight.step(gradients({40, 50}, step));
      kernel -= kRate * of_kernel.step(gradients({32, 8, 3, 3}, step)).view({32, 8, 3, 3});
      ASSERT_LT((training.model.weight - weight).abs().max().item<double>(), 1e-4) << step;
      ASSERT_LT((training.model.kernel - kernel).abs().max().item<double>(), 1e-4) << step;
    }
    training.replica->check_equal();
  });
}

// A matrix that has no higher rank arrives whole.
TEST(LowRankGradients, WhatHasTheRankIsNotChanged) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    Training training(communicator, low_rank(3), SGDOptions(1));
    const Tensor& weight = training.model.weight;
    const Tensor left = testing::numbers({40, 3}, 5), right = testing::numbers({3, 50}, 6);
    const Tensor gradient = left.mm(right), begin = weight.detach().clone();
    for (int step = 1; step <= 3; ++step) {
      training.optimizer.zero_grad();
      ((weight * gradient).sum() * (communicator.rank() == 0 ? 0.5 : 1.5)).backward();
      training.replica->step();
      EXPECT_LT((begin - weight - step * gradient).abs().max().item<float>(), 1e-3) << step;
      EXPECT_LT(kept_of("weight", training).abs().max().item<float>(), 1e-4) << step;
    }
  });
}

// What has been applied and what is kept are all gradients together, also where batches have other
// sizes: what is kept goes with them.
TEST(LowRankGradients, LoseNothing) {
  for (const bool describes : {false, true})
    train_ranks(2, LinkKind::inproc, [&](Communicator& communicator) {
      Training training(communicator, low_rank(1), SGDOptions(1));
      const Tensor begin = training.model.weight.detach().clone();
      Tensor sum = torch::zeros({40, 50});
      std::uint64_t samples = 1;
      for (int step = 0; step < 8; ++step) {
        samples = step % 2 == 0 ? 64 : 4;
        if (describes) training.replica->describe_batch(samples, 0);
        training.step(step);
        sum += (Given::gradient({40, 50}, step, 0) + Given::gradient({40, 50}, step, 1)) / 2;
      }
      const Tensor kept =
          kept_of("weight", training) / (describes ? static_cast<double>(samples) : 1.0);
      EXPECT_LT((begin - training.model.weight + kept - sum).abs().max().item<float>(), 1e-4);
    });
}

TEST(LowRankGradients, FactorsTravelAndNothingElse) {
  train_ranks(2, LinkKind::inproc, [](Communicator& real) {
    std::vector<Call> calls;
    testing::WatchedCommunicator communicator(real,
                                              [&](const Call& call) { calls.push_back(call); });
    Training training(communicator, low_rank(4));
    calls.clear();  // of how it was made
    training.step(0);
    std::size_t numbers = 0;
    for (const Call& call : calls)
      if (call.collective == collective::Collective::all_reduce) numbers += call.input.count;
    // 4 (40 + 50) + 4 (32 + 72), the bias of 50 numbers, and a few notes.
    EXPECT_GE(numbers, 776u + 50);
    EXPECT_LT(numbers, 776u + 50 + 40);
  });
}

TEST(LowRankGradients, ASkippedStepLeavesWhatIsKeptAsItWas) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    Training with(communicator, low_rank(2)), without(communicator, low_rank(2));
    for (int step = 0; step < 6; ++step) {
      with.step(step);
      without.step(step);
      if (step == 3) with.step(17, communicator.rank() == 1 ? NAN : 1);
    }
    EXPECT_EQ(with.replica->stats().skipped, 1u);
    EXPECT_EQ(distance(snapshot(with.model), snapshot(without.model)), 0);
  });
}

TEST(LowRankGradients, GoOnFromACheckpointToTheSameBits) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    Training whole(communicator, low_rank(2), SGDOptions(0.1));
    for (int step = 0; step < 4; ++step) whole.step(step);
    ReplicaState saved = whole.replica->state();
    for (auto* tensors : {&saved.common, &saved.own, &saved.parts})
      for (auto& tensor : *tensors) tensor.tensor = tensor.tensor.clone();
    Training second(communicator, low_rank(2), SGDOptions(0.1));
    {
      torch::NoGradGuard no_grad;
      for (std::size_t i = 0; i < second.model.parameters().size(); ++i)
        second.model.parameters()[i].copy_(whole.model.parameters()[i]);
    }
    second.replica->restore(saved);
    for (int step = 4; step < 8; ++step) {
      whole.step(step);
      second.step(step);
    }
    EXPECT_EQ(distance(snapshot(second.model), snapshot(whole.model)), 0);
  });
}

TEST(LowRankGradients, BatchesOfOtherSizesAreWeighed) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    Given model;
    SGD optimizer(model.parameters(), SGDOptions(1));
    const auto replica = make_all_reduce_replica(communicator, model, optimizer, low_rank(3));
    const Tensor left = testing::numbers({40, 3}, 5), right = testing::numbers({3, 50}, 6);
    const Tensor gradient = left.mm(right), begin = model.weight.detach().clone();
    Tensor sum = torch::zeros({40, 50});
    for (int step = 0; step < 3; ++step) {
      const std::uint64_t samples =
          communicator.rank() == 0 ? 1 : 3 + static_cast<std::uint64_t>(step);
      const double ours = communicator.rank() == 0 ? 5 : 1;
      replica->describe_batch(samples, 0);
      optimizer.zero_grad();
      ((model.weight * gradient).sum() * ours).backward();
      replica->step();
      sum += gradient * (5 + 3 + step) / (4 + step);
    }
    EXPECT_LT((begin - model.weight - sum).abs().max().item<float>(), 2e-2);
  });
}

// A compressor of one's own, in a few lines: the first rank's gradient counts for all.
class FirstRankOnly final : public Compressor {
 public:
  explicit FirstRankOnly(Communicator& communicator) : communicator_(communicator) {}
  std::string description() const override { return "first rank only"; }
  Work leave(const Bucket& bucket) override {
    Call call;
    call.collective = collective::Collective::broadcast;
    call.input = call.output = bucket.gradients;
    return communicator_.start(std::move(call));
  }
  std::optional<Work> arrive(std::size_t) override { return std::nullopt; }

 private:
  Communicator& communicator_;
};

TEST(Compressors, OnesOwnTrains) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    const AllReduceOptions own{.compressor = [](const CompressorContext& context) {
      return std::make_unique<FirstRankOnly>(context.communicator);
    }};
    Training training(communicator, own, SGDOptions(1));
    const Tensor begin = training.model.weight.detach().clone();
    training.step(0);
    EXPECT_TRUE(torch::equal(begin - Given::gradient({40, 50}, 0, 0), training.model.weight));
    training.replica->check_equal();
  });
}

TEST(Compressors, RanksThatDifferAreTold) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    EXPECT_THAT(message_of<JobFailed>(
                    [&] { Training training(communicator, low_rank(1 + communicator.rank())); }),
                HasSubstr("powersgd, rank 2 on rank 1, powersgd, rank 1 on rank 0"));
  });
}

}  // namespace
}  // namespace asup
