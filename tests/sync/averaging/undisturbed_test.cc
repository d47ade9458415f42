// Tests and checkpoints change nothing where workers step on their own, and training goes on from a
// checkpoint to the bits that it would have had, wherever in a round it was made.
#include <gtest/gtest.h>

#include <sstream>

#include "asup/sync/averaging/diloco_replica.h"
#include "asup/sync/averaging/gossip_replica.h"
#include "asup/sync/averaging/local_replica.h"
#include "tests/sync/training.h"

namespace asup::testing {
namespace {

using Make = std::function<std::unique_ptr<Replica>(Communicator&, torch::nn::Module&,
                                                    torch::optim::Optimizer&, std::string)>;

struct Way {
  std::string name;
  Make make;
};

std::vector<Way> ways() {
  const auto local = [](LocalOptions options) -> Make {
    return [=](auto& communicator, auto& module, auto& optimizer, const std::string& observed) {
      LocalOptions with = options;
      with.observed = observed;
      return make_local_replica(communicator, module, optimizer, with);
    };
  };
  const auto diloco = [](DilocoOptions options) -> Make {
    return [=](auto& communicator, auto& module, auto& optimizer, const std::string&) {
      return make_diloco_replica(communicator, module, optimizer, options);
    };
  };
  const auto gossip = [](GossipOptions options) -> Make {
    return [=](auto& communicator, auto& module, auto& optimizer, const std::string&) {
      return make_gossip_replica(communicator, module, optimizer, options);
    };
  };
  return {
      {"local", local({.every = 4})},
      {"local_keep", local({.every = 3, .state = MergeState::keep})},
      {"local_reset", local({.every = 5, .state = MergeState::reset})},
      {"local_auto", local({.adaptive = AdaptiveIntervalOptions{}})},
      {"local_int8", local({.every = 4, .code = kernels::Code::int8})},
      {"local_int4", local({.every = 3, .state = MergeState::keep, .code = kernels::Code::int4})},
      {"diloco", diloco({.every = 5})},
      {"streaming", diloco({.every = 6, .overlap = 2, .fragments = 3})},
      {"diloco_int4", diloco({.every = 5, .code = kernels::Code::int4})},
      {"streaming_int8",
       diloco({.every = 6, .overlap = 2, .fragments = 3, .code = kernels::Code::int8})},
      {"sparse", diloco({.every = 5, .density = 0.1})},
      {"streaming_bf16", diloco({.every = 6, .overlap = 4, .fragments = 2, .in_bf16 = true})},
      {"ring", gossip({.every = 2})},
      {"exponential", gossip({.every = 1, .graph = "exponential"})}};
}

// A worker's model and optimizer.
struct Worker {
  Mlp model;
  torch::optim::Adam optimizer{model.parameters(), torch::optim::AdamOptions(0.01)};

  // Ranks have parts of different sizes.
  void step(Replica& replica, int number, int rank) {
    optimizer.zero_grad();
    const Batch batch = part(Mlp::batch(static_cast<std::uint64_t>(number), 25), rank, 3);
    const auto loss = loss_of(model, batch);
    loss.backward();
    const auto samples = batch.data.size(0);
    replica.describe_batch(static_cast<std::uint64_t>(samples),
                           loss.item<double>() * static_cast<double>(samples));
    replica.step();
  }
};

void copy(const Worker& from, Worker& to) {
  torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < from.model.parameters().size(); ++i)
    to.model.parameters()[i].copy_(from.model.parameters()[i]);
  std::stringstream bytes;
  torch::serialize::OutputArchive out;
  from.optimizer.save(out);
  out.save_to(bytes);
  torch::serialize::InputArchive in;
  in.load_from(bytes);
  to.optimizer.load(in);
}

std::vector<sync::NamedTensor> copy(std::vector<sync::NamedTensor> tensors) {
  for (auto& named : tensors) named.tensor = named.tensor.clone();
  return tensors;
}

class Undisturbed : public ::testing::TestWithParam<Way> {
 protected:
  static constexpr int kSteps = 17;

  static void expect_same(const Worker& one, const std::vector<torch::Tensor>& expected,
                          const std::string& what) {
    EXPECT_EQ(distance(snapshot(one.model), expected), 0) << what;
  }

  // What a rank has after all steps, and when all models were made one then.
  struct Course {
    std::vector<torch::Tensor> own, merged;
  };
  static Course undisturbed(Communicator& communicator) {
    Worker worker;
    const auto replica = GetParam().make(communicator, worker.model, worker.optimizer, "");
    for (int i = 0; i < kSteps; ++i) worker.step(*replica, i, communicator.rank());
    Course course;
    course.own = snapshot(worker.model);
    replica->synchronize();
    course.merged = snapshot(worker.model);
    return course;
  }
};

TEST_P(Undisturbed, ByTestsAndCheckpoints) {
  train_ranks(3, net::LinkKind::tcp, [&](Communicator& communicator) {
    const Course whole = undisturbed(communicator);
    Worker worker;
    const auto replica = GetParam().make(communicator, worker.model, worker.optimizer, "");
    for (int i = 0; i < kSteps; ++i) {
      worker.step(*replica, i, communicator.rank());
      replica->with_mean_model([] {});
      if (i % 3 != 0) (void)replica->state();
    }
    expect_same(worker, whole.own, "before the merge");
    replica->synchronize();
    expect_same(worker, whole.merged, "after the merge");
    replica->check_equal();
  });
}

TEST_P(Undisturbed, ByAnInterruption) {
  train_ranks(3, net::LinkKind::shm, [&](Communicator& communicator) {
    const int rank = communicator.rank();
    const Course whole = undisturbed(communicator);
    Worker worker;
    const auto replica = GetParam().make(communicator, worker.model, worker.optimizer, "");
    for (int done = 0; done < kSteps; ++done) {
      const ReplicaState state = replica->state();
      Worker other;
      const auto next =
          GetParam().make(communicator, other.model, other.optimizer, replica->observed());
      copy(worker, other);
      next->restore({copy(state.common), copy(state.own), copy(state.parts)});
      for (int i = done; i < kSteps; ++i) other.step(*next, i, rank);
      expect_same(other, whole.own, fmt::format("interrupted after {} steps", done));
      next->synchronize();
      expect_same(other, whole.merged, fmt::format("merged, interrupted after {} steps", done));
      worker.step(*replica, done, rank);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ways, Undisturbed, ::testing::ValuesIn(ways()),
                         [](const auto& info) { return info.param.name; });

// The shared model and the outer momentum are of no settings; the plan of exchanges is.
TEST(DilocoState, OutlivesOtherSettings) {
  train_ranks(2, net::LinkKind::inproc, [](Communicator& communicator) {
    Worker worker, other;
    const auto replica = make_diloco_replica(communicator, worker.model, worker.optimizer,
                                             {.every = 4, .overlap = 2});
    for (int i = 0; i < 9; ++i) worker.step(*replica, i, communicator.rank());
    const ReplicaState state = replica->state();
    const auto next =
        make_diloco_replica(communicator, other.model, other.optimizer, {.every = 5, .overlap = 2});
    copy(worker, other);
    next->restore({copy(state.common), copy(state.own)});
    EXPECT_TRUE(next->models_differ());
    EXPECT_TRUE(torch::equal(next->state().common[0].tensor, state.common[0].tensor));
    EXPECT_TRUE(torch::equal(next->state().common[1].tensor, state.common[1].tensor));
    for (int i = 9; i < 14; ++i) other.step(*next, i, communicator.rank());
    EXPECT_EQ(next->stats().merges, 0u) << "the exchange under way belongs to the old plan";
    for (int i = 14; i < 16; ++i) other.step(*next, i, communicator.rank());
    EXPECT_EQ(next->stats().merges, 1u);
    next->synchronize();
    next->check_equal();
  });
}

}  // namespace
}  // namespace asup::testing
