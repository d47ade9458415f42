// Workers that step on their own go on when one is lost: those who have ended an exchange, and
// those who have missed it.
#include <gtest/gtest.h>

#include <barrier>

#include "asup/base/error.h"
#include "asup/sync/averaging/diloco_replica.h"
#include "asup/sync/averaging/gossip_replica.h"
#include "asup/sync/averaging/local_replica.h"
#include "asup/sync/averaging/local_update_replica.h"
#include "asup/sync/model/optimizer_state.h"
#include "tests/sync/training.h"
#include "tests/sync/watched_communicator.h"

namespace asup::testing {
namespace {

using Make = std::function<std::unique_ptr<sync::LocalUpdateReplica>(
    Communicator&, torch::nn::Module&, torch::optim::Optimizer&)>;

struct Case {
  std::string name;
  Make make;
};

// Models are exchanged after every second step.
std::vector<Case> ways() {
  const auto local = [](MergeState state, bool adaptive, kernels::Code code = kernels::Code::none) {
    return [=](auto& communicator, auto& module, auto& optimizer) {
      return make_local_replica(
          communicator, module, optimizer,
          {.every = 2,
           .adaptive = adaptive ? std::optional(AdaptiveIntervalOptions{8}) : std::nullopt,
           .state = state,
           .code = code});
    };
  };
  const auto diloco = [](DilocoOptions options) {
    return [=](auto& communicator, auto& module, auto& optimizer) {
      return make_diloco_replica(communicator, module, optimizer, options);
    };
  };
  const auto gossip = [](const char* graph) {
    return [=](auto& communicator, auto& module, auto& optimizer) {
      return make_gossip_replica(communicator, module, optimizer, {.every = 2, .graph = graph});
    };
  };
  return {{"local", local(MergeState::average, false)},
          {"local_keep", local(MergeState::keep, false)},
          {"local_auto", local(MergeState::reset, true)},
          {"local_int4", local(MergeState::average, false, kernels::Code::int4)},
          {"diloco", diloco({.every = 2})},
          {"diloco_int4", diloco({.every = 2, .code = kernels::Code::int4})},
          {"streaming", diloco({.every = 4, .overlap = 1, .fragments = 2, .in_bf16 = true})},
          {"ring", gossip("ring")},
          {"exponential", gossip("exponential")}};
}

void step(sync::LocalUpdateReplica& replica, torch::optim::Optimizer& optimizer, Mlp& model,
          int rank, int number, bool alone = false) {
  optimizer.zero_grad();
  const auto loss = loss_of(model, part(Mlp::batch(static_cast<std::uint64_t>(number)), rank, 4));
  loss.backward();
  replica.describe_batch(6, loss.item<double>() * 6);
  (void)(alone ? replica.step_alone() : replica.step());
}

torch::optim::SGD sgd(torch::nn::Module& module) {
  return torch::optim::SGD(module.parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
}

class GoingOn : public ::testing::TestWithParam<Case> {};

// One leaves after three steps; each of the others finds out in a step of its own, and the
// furthest is waited for.
TEST_P(GoingOn, WithoutOneThatIsGone) {
  constexpr int kSteps = 40;
  for (const auto links : {net::LinkKind::shm, net::LinkKind::tcp}) {
    std::barrier all_have_begun(4);
    train_ranks(4, links, [&](Communicator& communicator) {
      const int rank = communicator.rank();
      Mlp model;
      auto optimizer = sgd(model);
      const MadeReplica made = sync::as_made(GetParam().make(communicator, model, optimizer));
      sync::LocalUpdateReplica* replica = made.local;
      all_have_begun.arrive_and_wait();
      int done = 0;
      try {
        for (; done < kSteps; ++done) {
          if (rank == 2 && done == 3) return;
          step(*replica, optimizer, model, rank, done);
        }
        FAIL() << "nobody was missed";
      } catch (const JobFailed&) {
        ++done;  // its own step is
      }
      communicator.rebuild().or_throw();
      ASSERT_EQ(communicator.size(), 3);
      replica->regroup();
      std::int64_t furthest = done;
      communicator.all_reduce(buffer_of(std::span(&furthest, 1)), ReduceOp::max).or_throw();
      for (; done < furthest; ++done) step(*replica, optimizer, model, rank, done, true);
      replica->synchronize();
      replica->check_equal();
      const auto met = snapshot(model);
      for (; done < kSteps + 7; ++done) step(*replica, optimizer, model, rank, done);
      replica->synchronize();
      replica->check_equal();
      EXPECT_GT(distance(snapshot(model), met), 1e-4);
      EXPECT_TRUE(communicator.barrier().ok());  // nobody leaves earlier
    });
  }
}

std::vector<torch::Tensor> moments_of(const sync::OptimizerState& state) {
  std::vector<torch::Tensor> copies;
  for (const auto& kind : state.tensors())
    for (const auto& tensor : kind) copies.push_back(tensor.clone());
  return copies;
}

// Nobody takes what another may not have got; the merge is done again, with the same samples. One
// has taken more steps than the other.
TEST(AskBeforeTaking, EachKeepsItsOwnModelUntilAllHaveTheMean) {
  train_ranks(2, net::LinkKind::shm, [&](Communicator& communicator) {
    const int rank = communicator.rank();
    Mlp model;
    torch::optim::Adam optimizer(model.parameters(), 0.01);
    const sync::OptimizerState state(optimizer, model.parameters());
    const MadeReplica made =
        sync::as_made(make_local_replica(communicator, model, optimizer, {.every = 0}));
    sync::LocalUpdateReplica* replica = made.local;
    for (int i = 0; i <= rank; ++i) step(*replica, optimizer, model, rank, i);
    const auto own = snapshot(model);
    const auto own_moments = moments_of(state);
    const auto own_counts = state.counts();
    replica->ask_before_taking([] { throw JobFailed("another has not got it"); });
    EXPECT_THROW(replica->synchronize(), JobFailed);
    EXPECT_EQ(distance(snapshot(model), own), 0);
    EXPECT_EQ(distance(moments_of(state), own_moments), 0);
    EXPECT_EQ(state.counts(), own_counts);
    replica->ask_before_taking({});
    replica->synchronize();
    replica->check_equal();
    EXPECT_GT(distance(snapshot(model), own), 0);
    EXPECT_GT(distance(moments_of(state), own_moments), 0);
    EXPECT_EQ(state.counts() == own_counts, rank == 1);
    EXPECT_EQ(replica->stats().merges, 1u);
    EXPECT_TRUE(communicator.barrier().ok());
  });
}

INSTANTIATE_TEST_SUITE_P(Ways, GoingOn, ::testing::ValuesIn(ways()),
                         [](const auto& info) { return info.param.name; });

// A communicator whose calls come back as failed after a while, though they were made: as when
// somebody is lost just when others have ended them.
class Deaf : public asup::testing::WatchedCommunicator {
 public:
  explicit Deaf(Communicator& real) : WatchedCommunicator(real, [](const Call&) {}) {}

  int hears = 1'000'000;  // calls to come

  Work start(Call call) override {
    struct Unheard : Work::State {
      Unheard(Work real, bool deaf) : real(std::move(real)), deaf(deaf) {}
      bool done() const override { return real.done(); }
      Outcome wait() override {
        Outcome outcome = real.wait();
        return deaf ? Outcome(Outcome::Kind::lost, "somebody was lost") : outcome;
      }
      Work real;
      const bool deaf;
    };
    return Work(
        std::make_shared<Unheard>(WatchedCommunicator::start(std::move(call)), --hears < 0));
  }
  Outcome run(Call call) override { return start(std::move(call)).wait(); }
};

// What it did before is part of the exchange that it missed, and must not count twice.
TEST(GoingOnAlike, WhoHasMissedAnOuterStepAdoptsIt) {
  std::barrier all_have_ended_their_calls(3);
  train_ranks(3, net::LinkKind::inproc, [&](Communicator& real) {
    const int rank = real.rank();
    Deaf communicator(real);
    Mlp model;
    auto optimizer = sgd(model);
    const MadeReplica made =
        sync::as_made(make_diloco_replica(communicator, model, optimizer, {.every = 2}));
    sync::LocalUpdateReplica* replica = made.local;
    for (int i = 0; i < 3; ++i) step(*replica, optimizer, model, rank, i);
    if (rank == 1) communicator.hears = 0;
    if (rank == 1) {
      EXPECT_THROW(step(*replica, optimizer, model, rank, 3), JobFailed);
    } else {
      step(*replica, optimizer, model, rank, 3);
    }
    communicator.hears = 1'000'000;
    all_have_ended_their_calls.arrive_and_wait();
    communicator.rebuild(Seconds(0)).or_throw();
    replica->regroup();
    replica->check_equal();
    EXPECT_EQ(replica->stats().merges, 2u);
    auto state = replica->state().common;
    state.resize(2);  // the outer momentum and the shared model; synchronize() makes a new plan
    sync::check_equal_tensors(real, "state", state);
    replica->synchronize();
    for (int i = 4; i < 9; ++i) step(*replica, optimizer, model, rank, i);
    replica->synchronize();
    replica->check_equal();
    EXPECT_TRUE(real.barrier().ok());
  });
}

// The merged model of those who have ended the merge counts by what was merged, though they have
// done nothing since.
TEST(GoingOnAlike, WhoHasMissedAMergeMergesWithThoseWhoHaveNot) {
  std::barrier all_have_ended_their_calls(2);
  train_ranks(2, net::LinkKind::inproc, [&](Communicator& real) {
    const int rank = real.rank();
    Deaf communicator(real);
    Mlp model;
    auto optimizer = sgd(model);
    const MadeReplica made = sync::as_made(make_local_replica(
        communicator, model, optimizer, {.every = 2, .state = MergeState::keep}));
    sync::LocalUpdateReplica* replica = made.local;
    step(*replica, optimizer, model, rank, 0);
    if (rank == 1) communicator.hears = 2;  // but not how far models were apart
    if (rank == 1) {
      EXPECT_THROW(step(*replica, optimizer, model, rank, 1), JobFailed);
    } else {
      step(*replica, optimizer, model, rank, 1);
    }
    communicator.hears = 1'000'000;
    const auto before = snapshot(model);
    all_have_ended_their_calls.arrive_and_wait();
    communicator.rebuild(Seconds(0)).or_throw();
    replica->regroup();
    replica->synchronize();
    replica->check_equal();
    // The mean of both, of the same number of samples: as far from the one as from the other.
    std::vector<double> moved(2);
    double own = distance(snapshot(model), before);
    real.all_gather(buffer_of(std::span(&own, 1)), buffer_of(std::span(moved))).or_throw();
    EXPECT_GT(moved[0], 1e-6);
    EXPECT_NEAR(moved[0], moved[1], 0.01 * moved[0]);
  });
}

}  // namespace
}  // namespace asup::testing
