#include "asup/sync/gradients/finite_look.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "asup/base/error.h"
#include "asup/sync/model/device.h"
#include "tests/support/thrown.h"
#include "tests/sync/gradients/all_reduce_training.h"

namespace asup::testing {
namespace {

using net::LinkKind;
using sync::FiniteLook;
using ::testing::HasSubstr;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kMost = std::numeric_limits<float>::max();

// One whose sum over two ranks overflows counts as infinite.
TEST(FiniteLook, TellsTheOthersOfWhatIsNotFinite) {
  for (const auto& [value, finite] : {std::pair{kMost / 8, true},
                                      {-kMost / 8, true},
                                      {-kMost, false},
                                      {kInfinity, false},
                                      {kNaN, false}}) {
    std::vector<float> gradients(100, -1);
    FiniteLook look(true, 2);
    look.begin();
    look.leaves(buffer_of(std::span(gradients)), 1);
    EXPECT_EQ(look.note(), 0);
    gradients[70] = value;
    look.leaves(buffer_of(std::span(gradients)), 1);
    EXPECT_EQ(look.note(), finite ? 0 : 1) << value;
    look.begin();
    EXPECT_EQ(look.note(), 0) << "another round";
    look.leaves(buffer_of(std::span(gradients)), 16);
    EXPECT_EQ(look.note(), 1) << "times 16, " << value;
  }
}

TEST(FiniteLook, HearsOfTheOthers) {
  FiniteLook look(true, 4);
  look.begin();
  EXPECT_TRUE(look.finite());
  look.ends(0.25);
  EXPECT_FALSE(look.finite());
  look.begin();
  look.ends(0);
  EXPECT_TRUE(look.finite());
}

TEST(FiniteLook, IsSparedWhereABoundIsKnown) {
  std::vector<float> gradients(100, kNaN);
  FiniteLook look(true, 2), none(false, 2);
  look.begin();
  look.leaves(buffer_of(std::span(gradients)), 1, 5);
  EXPECT_EQ(look.note(), 0) << "it did not look";
  for (const float bound : {kInfinity, kNaN}) {
    look.begin();
    look.leaves(buffer_of(std::span(gradients)), 1, bound);
    EXPECT_EQ(look.note(), 1);
  }
  none.begin();
  none.leaves(buffer_of(std::span(gradients)), 1);
  EXPECT_EQ(none.note(), 0);
}

// A model whose gradients are what the test says.
struct Weights : torch::nn::Module {
  explicit Weights(torch::ScalarType type = torch::kFloat32, std::int64_t elements = 50) {
    for (const char* name : {"first", "second"})
      register_parameter(name, torch::zeros({elements}, type));
  }
  // All of them are `value`, except for one.
  void backward(double value, double one) {
    const auto weights = parameters();
    const torch::Tensor alike = torch::full_like(weights[0], value), others = alike.clone();
    others[20] = one;
    ((weights[0] * alike).sum() + (weights[1] * others).sum()).backward();
  }
};

struct Trained {
  explicit Trained(Communicator& communicator, torch::ScalarType type = torch::kFloat32,
                   std::int64_t elements = 50, NonFinite policy = NonFinite::skip)
      : rank(communicator.rank()),
        model(type, elements),
        optimizer(sgd(model)),
        replica(make_all_reduce_replica(communicator, model, optimizer,
                                        {.bucket_bytes = 150, .non_finite = policy})) {}
  // With this gradient among those of rank 1.
  StepResult step(double one, std::optional<std::uint64_t> samples = {}) {
    optimizer.zero_grad();
    if (samples) replica->describe_batch(*samples, 0);
    model.backward(1, rank == 1 ? one : 1);
    return replica->step();
  }
  bool moved() { return model.parameters()[0].count_nonzero().item<std::int64_t>() > 0; }

  int rank;
  Weights model;
  torch::optim::SGD optimizer;
  std::unique_ptr<Replica> replica;
};

// Also where gradients are copied to the host, and asked for there; those of 16 MB, which the noise
// scale leaves out in most steps.
TEST(FiniteLook, OneRankIsEnoughInEveryType) {
  for (const bool copies : {false, true}) {
    const sync::ForcedCopies forced(copies);
    for (const auto type : {torch::kFloat32, torch::kFloat64, torch::kBFloat16, torch::kFloat16})
      for (const std::int64_t elements : {50, 2 << 20}) {
        if (elements > 50 && type != torch::kFloat32) continue;
        SCOPED_TRACE(::testing::Message()
                     << type << " × " << elements << (copies ? ", copied" : ""));
        train_ranks(3, LinkKind::inproc, [&](Communicator& communicator) {
          Trained trained(communicator, type, elements);
          std::uint64_t skipped = 0;
          for (int i = 0; i < 2; ++i)
            for (const float one : {kNaN, 1.0f, kInfinity, -kInfinity}) {
              const bool is_finite = std::isfinite(one);
              EXPECT_EQ(trained.step(one), is_finite ? StepResult::applied : StepResult::skipped);
              skipped += !is_finite;
              EXPECT_EQ(trained.replica->stats().skipped, skipped);
              EXPECT_EQ(trained.moved(), i > 0 || skipped > 1 || is_finite);
            }
          trained.replica->check_equal();
        });
      }
  }
}

TEST(FiniteLook, DescribedBatchesToo) {
  for (const bool copies : {false, true}) {
    const sync::ForcedCopies forced(copies);
    for (const auto type : {torch::kFloat32, torch::kFloat16})
      train_ranks(2, LinkKind::inproc, [&](Communicator& communicator) {
        Trained trained(communicator, type);
        const std::uint64_t samples = communicator.rank() == 0 ? 3 : 5;
        EXPECT_EQ(trained.step(2, samples), StepResult::applied);
        EXPECT_EQ(trained.step(kNaN, samples), StepResult::skipped);
        EXPECT_EQ(trained.step(2, communicator.rank() == 0 ? 3 : 0), StepResult::applied);
        EXPECT_EQ(trained.step(kInfinity, communicator.rank() == 0 ? 3 : 0), StepResult::skipped)
            << "infinity times 0 samples is none";
        // Five times that is more than the type has.
        EXPECT_EQ(trained.step(type == torch::kFloat16 ? 60000 : kMost / 2, samples),
                  StepResult::skipped);
        EXPECT_EQ(trained.step(2, samples), StepResult::applied);
      });
  }
}

// Their average is finite, and so is what comes of it.
TEST(FiniteLook, LargeHalvesAreNoInfinities) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    Trained trained(communicator, torch::kFloat16);
    EXPECT_EQ(trained.step(60000), StepResult::applied);
  });
}

// Gradients add up, and what one has spoiled stays so, unless it is thrown away.
TEST(FiniteLook, SeveralBackwardsInAStep) {
  for (const bool copies : {false, true}) {
    const sync::ForcedCopies forced(copies);
    train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
      Trained trained(communicator);
      const bool spoils = communicator.rank() == 1;
      const auto backwards = [&](double first, bool throws_away, double second) {
        trained.optimizer.zero_grad();
        trained.model.backward(1, spoils ? first : 1);
        if (throws_away) trained.optimizer.zero_grad();
        trained.model.backward(1, spoils ? second : 1);
        return trained.replica->step();
      };
      EXPECT_EQ(backwards(1, false, 1), StepResult::applied);
      EXPECT_EQ(backwards(kNaN, false, 1), StepResult::skipped);
      EXPECT_EQ(backwards(kInfinity, false, -kInfinity), StepResult::skipped);
      EXPECT_EQ(backwards(1, false, kNaN), StepResult::skipped);
      EXPECT_EQ(backwards(kNaN, true, 1), StepResult::applied);
      {
        trained.optimizer.zero_grad();
        const NoSync local(*trained.replica);
        trained.model.backward(1, spoils ? kNaN : 1);
      }
      trained.model.backward(1, 1);
      EXPECT_EQ(trained.replica->step(), StepResult::skipped) << "of what was only added up";
      EXPECT_EQ(trained.step(1), StepResult::applied);
    });
  }
}

TEST(FiniteLook, ThoseThatEndTheJobAreNamedEverywhere) {
  for (const bool copies : {false, true}) {
    const sync::ForcedCopies forced(copies);
    train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
      Trained trained(communicator, torch::kFloat32, 50, NonFinite::fatal);
      EXPECT_EQ(trained.step(1), StepResult::applied);
      EXPECT_THAT(message_of<Error>([&] { trained.step(kNaN); }),
                  HasSubstr("the gradients of step 1 are infinite or NaN: those of second."));
    });
  }
}

}  // namespace
}  // namespace asup::testing
