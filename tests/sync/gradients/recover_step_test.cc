// A step in which a rank is lost: those who are left take it again, or take over what came of it
// from those who had made it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cmath>
#include <cstring>

#include "asup/base/error.h"
#include "asup/sync/compressors/coded_momenta.h"
#include "asup/sync/compressors/low_rank_gradients.h"
#include "asup/sync/compressors/sparse_gradients.h"
#include "asup/sync/gradients/all_reduce_replica.h"
#include "tests/support/logged.h"
#include "tests/sync/gradients/lost_rank.h"
#include "tests/sync/optimizers.h"
#include "tests/sync/training.h"
#include "tests/sync/watched_communicator.h"

namespace asup {
namespace {

using net::LinkKind;
using testing::expect_same;
using testing::FailsHere;
using ::testing::HasSubstr;
using testing::kRanks;
using testing::loss_of;
using testing::Mlp;
using testing::part;
using testing::train_ranks;

constexpr int kLostAfter = 3, kSteps = 9;

struct Case {
  std::string name;
  testing::MakeOptimizer optimizer;
  AllReduceOptions options{};
  bool is_exact = true;  // as one process trains, to rounding
};

std::vector<Case> cases() {
  using namespace torch::optim;
  const auto momentum = testing::maker<SGD>(SGDOptions(0.05).momentum(0.9));
  const auto adam = testing::maker<Adam>(AdamOptions(0.01));
  AllReduceOptions int4{.code = kernels::Code::int4, .feedback = true};
  return {{"momentum", momentum},
          {"adam", adam},
          {"small_buckets", adam, {.bucket_bytes = 1, .first_bucket_bytes = 1}},
          {"int4", adam, int4, false},
          {"topk", adam, {.compressor = sync::topk({.density = 0.1})}, false},
          {"dgc", momentum, {.compressor = sync::dgc({.density = 0.1})}, false},
          {"onebit", momentum, {.compressor = sync::coded_momenta({})}, false},
          {"powersgd", adam, {.compressor = sync::powersgd(2)}, false}};
}

// Large enough a weight to be compressed.
constexpr std::int64_t kWidth = 40;

// What compression has kept on this rank.
std::vector<torch::Tensor> kept_by(Replica& replica) {
  std::vector<torch::Tensor> kept;
  for (const auto& [name, tensor] : replica.state().parts) kept.push_back(tensor.clone());
  return kept;
}

class RecoverStep : public ::testing::TestWithParam<Case> {
 protected:
  struct Training {
    Training(Communicator& ranks, const Case& of)
        : communicator(ranks),
          optimizer(of.optimizer(model)),
          replica(make_all_reduce_replica(ranks, model, *optimizer, of.options)) {}

    std::uint64_t done() const { return replica->stats().steps; }
    void backward(double times = 1) {
      optimizer->zero_grad();
      const auto own = part(Mlp::batch(done()), communicator.rank(), communicator.size());
      (times * loss_of(model, own)).backward();
    }
    void recover() {
      communicator.rebuild().or_throw();
      replica->recover_step();
    }
    void go_on_to(std::uint64_t steps) {
      while (done() < steps) try {
          backward();
          (void)replica->step();
        } catch (const JobFailed&) {
          recover();
        }
    }

    Communicator& communicator;
    Mlp model{kWidth};
    std::unique_ptr<torch::optim::Optimizer> optimizer;
    std::unique_ptr<Replica> replica;
  };

  // All batches in one process.
  std::vector<torch::Tensor> alone() const {
    Mlp model{kWidth};
    const auto optimizer = GetParam().optimizer(model);
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      optimizer->zero_grad();
      loss_of(model, Mlp::batch(step)).backward();
      optimizer->step();
    }
    return testing::snapshot(model);
  }

  // What rank 1 has kept after so many steps of all ranks.
  std::vector<torch::Tensor> kept_by_rank_1(std::uint64_t steps) const {
    std::vector<torch::Tensor> kept;
    train_ranks(kRanks, LinkKind::inproc, [&](Communicator& communicator) {
      Training training(communicator, GetParam());
      training.go_on_to(steps);
      if (communicator.rank() == 1) kept = kept_by(*training.replica);
    });
    return kept;
  }

  void expect_well_trained(Training& training) const {
    ASSERT_EQ(training.communicator.size(), kRanks - 1);
    training.replica->check_equal();
    if (GetParam().is_exact) {
      EXPECT_LT(testing::distance(testing::snapshot(training.model), alone()), 1e-5);
    }
  }
};

TEST_P(RecoverStep, IsTakenAgainWhereNobodyHasMadeIt) {
  for (const LinkKind links : {LinkKind::inproc, LinkKind::shm, LinkKind::tcp}) {
    std::barrier all_have_stepped(kRanks);
    train_ranks(kRanks, links, [&](Communicator& communicator) {
      Training training(communicator, GetParam());
      training.go_on_to(kLostAfter);
      all_have_stepped.arrive_and_wait();
      if (communicator.rank() == 2) return;
      const auto kept = kept_by(*training.replica);
      EXPECT_THROW(training.backward(), JobFailed);
      training.recover();
      EXPECT_EQ(training.done(), static_cast<std::uint64_t>(kLostAfter));
      expect_same(kept_by(*training.replica), kept);
      training.go_on_to(kSteps);
      expect_well_trained(training);
    });
  }
}

// Rank 1 has yet to step when it learns of the loss, elsewhere; rank 0 is lost, as any may be.
TEST_P(RecoverStep, IsTakenOverFromOneWhoHasMadeIt) {
  const auto kept_undisturbed = kept_by_rank_1(kLostAfter + 1);
  for (const LinkKind links : {LinkKind::shm, LinkKind::tcp}) {
    std::barrier all_have_exchanged(kRanks);
    train_ranks(kRanks, links, [&](Communicator& communicator) {
      const int rank = communicator.rank();
      Training training(communicator, GetParam());
      training.go_on_to(kLostAfter);
      rank == 1 ? training.backward() : training.go_on_to(kLostAfter + 1);
      all_have_exchanged.arrive_and_wait();
      if (rank == 0) return;
      if (rank == 1) training.recover();
      EXPECT_EQ(training.done(), kLostAfter + 1u);
      if (rank == 1) expect_same(kept_by(*training.replica), kept_undisturbed);
      training.go_on_to(kSteps);
      expect_well_trained(training);
    });
  }
}

// Gradients were NaN: nothing of them is kept.
TEST_P(RecoverStep, IsTakenOverFromOneWhoHasSkippedIt) {
  std::barrier all_have_exchanged(kRanks);
  train_ranks(kRanks, LinkKind::shm, [&](Communicator& communicator) {
    const int rank = communicator.rank();
    Training training(communicator, GetParam());
    training.go_on_to(kLostAfter);
    const auto kept = kept_by(*training.replica);
    training.backward(std::nan(""));
    if (rank != 1) {
      EXPECT_EQ(training.replica->step(), StepResult::skipped);
    }
    all_have_exchanged.arrive_and_wait();
    if (rank == 0) return;
    if (rank == 1) {
      training.recover();
      EXPECT_EQ(training.done(), kLostAfter + 1u);
      EXPECT_EQ(training.replica->stats().skipped, 1u);
      expect_same(kept_by(*training.replica), kept);
    }
    training.go_on_to(kSteps);
    training.replica->check_equal();
    EXPECT_EQ(training.replica->stats().skipped, 1u);
  });
}

// Names alone, in the place of bytes.
void PrintTo(const Case& of, std::ostream* out) { *out << of.name; }

// What a program has that cannot compute a step again.
class RetakenStep : public RecoverStep {
 protected:
  // The replica itself brings those who are left together.
  struct Program : Training {
    Program(Communicator& ranks, Case of) : Training(ranks, with_regroup(std::move(of))) {}
    Case with_regroup(Case of) {
      of.options.regroup = [this] {
        recover();
        ++regrouped;
        return true;
      };
      return of;
    }
    void step() {
      backward();
      EXPECT_EQ(replica->step(), StepResult::applied);
    }
    int regrouped = 0;
  };

  // In the step in which rank 2 is lost, the others have the first two of three parts.
  std::vector<torch::Tensor> alone_without_a_part() const {
    Mlp model{kWidth};
    const auto optimizer = GetParam().optimizer(model);
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      optimizer->zero_grad();
      testing::Batch batch = Mlp::batch(step);
      if (step == kLostAfter) batch = {batch.data.narrow(0, 0, 16), batch.target.narrow(0, 0, 16)};
      loss_of(model, batch).backward();
      optimizer->step();
    }
    return testing::snapshot(model);
  }
};

TEST_P(RetakenStep, IsTheMeanOfThoseWhoAreLeft) {
  for (const LinkKind links : {LinkKind::inproc, LinkKind::shm, LinkKind::tcp}) {
    std::barrier all_have_stepped(kRanks);
    train_ranks(kRanks, links, [&](Communicator& communicator) {
      Program program(communicator, GetParam());
      for (int step = 0; step < kLostAfter; ++step) program.step();
      all_have_stepped.arrive_and_wait();
      if (communicator.rank() == 2) return;
      for (int step = kLostAfter; step < kSteps; ++step) program.step();
      EXPECT_EQ(program.regrouped, 1);
      EXPECT_EQ(program.done(), static_cast<std::uint64_t>(kSteps));
      program.replica->check_equal();
      if (!GetParam().is_exact) return;
      const auto trained = testing::snapshot(program.model);
      EXPECT_LT(testing::distance(trained, alone_without_a_part()), 1e-5);
    });
  }
}

// Rank 1 learns of the loss elsewhere, between its backward and its step; rank 2 in the next
// exchange.
TEST_P(RetakenStep, IsNotMadeTwiceWhereOthersHadMadeIt) {
  for (const LinkKind links : {LinkKind::shm, LinkKind::tcp}) {
    std::barrier all_have_exchanged(kRanks);
    train_ranks(kRanks, links, [&](Communicator& communicator) {
      const int rank = communicator.rank();
      Program program(communicator, GetParam());
      for (int step = 0; step < kLostAfter; ++step) program.step();
      rank == 1 ? program.backward() : program.step();
      all_have_exchanged.arrive_and_wait();
      if (rank == 0) return;
      if (rank == 1) {
        program.recover();
        EXPECT_EQ(program.done(), kLostAfter + 1u);
        EXPECT_EQ(program.replica->step(), StepResult::applied);
        EXPECT_EQ(program.done(), kLostAfter + 1u);
      }
      while (program.done() < kSteps) program.step();
      program.replica->check_equal();
    });
  }
}

// A communicator one of whose exchanges fails here once all others have it, and leaves nothing
// behind.
class Unlucky : public testing::WatchedCommunicator {
 public:
  Unlucky(Communicator& real, std::barrier<>& all_others_have_it)
      : WatchedCommunicator(real, [](const Call&) {}), all_others_have_it_(all_others_have_it) {}

  void fail_at(std::size_t exchange) { until_ = exchange; }  // 1: the next
  std::size_t started() const { return started_; }
  Work start(Call call) override {
    const Buffer output = call.output;
    Work work = WatchedCommunicator::start(std::move(call));
    ++started_;
    if (until_ == 0 || --until_ > 0) return work;
    return Work(std::make_shared<Failing>(work, output, all_others_have_it_));
  }

 private:
  struct Failing : Work::State {
    Failing(Work work, Buffer output, std::barrier<>& all_others_have_it)
        : work(std::move(work)), output(output), all_others_have_it(all_others_have_it) {}
    bool done() const override { return false; }
    Outcome wait() override {
      if (std::exchange(has_failed, true)) return outcome;
      (void)work.wait();
      all_others_have_it.arrive_and_wait();
      std::memset(output.data, 0xff, output.bytes());
      return outcome;
    }
    Work work;
    const Buffer output;
    std::barrier<>& all_others_have_it;
    bool has_failed = false;
    const Outcome outcome{Outcome::Kind::lost, "rank 0 was lost, as far as this one knows"};
  };

  std::barrier<>& all_others_have_it_;
  std::size_t until_ = 0, started_ = 0;
};

TEST_P(RetakenStep, GetsTheAveragesOfOneWhoHasThem) {
  std::barrier<> others_have_it(kRanks);
  train_ranks(kRanks, LinkKind::inproc, [&](Communicator& real) {
    const int rank = real.rank();
    Unlucky communicator(real, others_have_it);
    Program program(communicator, GetParam());
    for (int step = 0; step < kLostAfter; ++step) program.step();
    if (rank == 2) communicator.fail_at(1);
    program.backward();
    if (rank < 2) others_have_it.arrive_and_wait();
    if (rank == 0) return;
    if (rank == 1) program.recover();
    EXPECT_EQ(program.replica->step(), StepResult::applied);
    program.replica->check_equal();
    while (program.done() < kSteps) program.step();
    program.replica->check_equal();
  });
}

std::vector<Case> cases_to_retake() {
  std::vector<Case> all = cases();
  std::erase_if(all, [](const Case& each) { return each.name == "powersgd"; });
  return all;
}

INSTANTIATE_TEST_SUITE_P(Ways, RetakenStep, ::testing::ValuesIn(cases_to_retake()),
                         [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(Ways, RecoverStep, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

// Two calls for a bucket: where the last has failed, nobody knows what the step has lost.
class LowRankStep : public RecoverStep {};

INSTANTIATE_TEST_SUITE_P(Ways, LowRankStep, ::testing::Values(cases().back()),
                         [](const auto& info) { return info.param.name; });

TEST_P(LowRankStep, LeavesWhatWasKeptWhereItIsTakenOver) {
  std::barrier<> others_have_it(kRanks);
  train_ranks(kRanks, LinkKind::inproc, [&](Communicator& real) {
    const int rank = real.rank();
    Unlucky communicator(real, others_have_it);
    Training training(communicator, GetParam());
    training.go_on_to(kLostAfter - 1);
    const std::size_t before = communicator.started();
    training.go_on_to(kLostAfter);
    const auto kept = kept_by(*training.replica);
    if (rank == 1) {
      communicator.fail_at(communicator.started() - before);
      EXPECT_THROW(training.backward(), JobFailed);
    } else {
      training.go_on_to(kLostAfter + 1);
      others_have_it.arrive_and_wait();
    }
    if (rank == 0) return;
    training.recover();
    EXPECT_EQ(training.done(), kLostAfter + 1u);
    if (rank == 1) expect_same(kept_by(*training.replica), kept);
    training.go_on_to(kSteps);
    training.replica->check_equal();
  });
}

class KeptStep : public RecoverStep {};

std::vector<Case> cases_that_keep() {
  std::vector<Case> all = cases();
  std::erase_if(all, [](const Case& each) {
    return each.options.code == kernels::Code::none && !each.options.compressor;
  });
  return all;
}

INSTANTIATE_TEST_SUITE_P(Ways, KeptStep, ::testing::ValuesIn(cases_that_keep()),
                         [](const auto& info) { return info.param.name; });

// The last of its sums fails on rank 2, and rank 1 has applied it.
TEST_P(KeptStep, IsMadeByAllOrNobody) {
  const bool has_momenta =  // that are not applied
      GetParam().name == "dgc" || GetParam().name == "onebit";
  std::barrier all_have_come(kRanks);
  train_ranks(kRanks, LinkKind::inproc, [&](Communicator& real) {
    const int rank = real.rank();
    FailsHere communicator(real);
    Training training(communicator, GetParam());
    training.go_on_to(kLostAfter);
    const std::size_t sums = 1 + kept_by(*training.replica).size() / (has_momenta ? 2 : 1);
    const auto before = testing::snapshot(training.model);
    if (rank == 2) {
      communicator.fail_at(sums);
      EXPECT_THROW(training.replica->apply_kept(), JobFailed);
      expect_same(testing::snapshot(training.model), before);
    } else {
      training.replica->apply_kept();
    }
    all_have_come.arrive_and_wait();
    if (rank == 0) return;
    training.recover();
    training.replica->check_equal();
    EXPECT_GT(testing::distance(testing::snapshot(training.model), before), 0);
    const auto applied = testing::snapshot(training.model);
    for (const torch::Tensor& kept : kept_by(*training.replica))
      EXPECT_EQ(kept.count_nonzero().item<std::int64_t>(), 0);
    training.replica->apply_kept();  // as who has not heard of it will
    expect_same(testing::snapshot(training.model), applied);
  });
}

// Who goes on begins a new exchange, of which there is nothing new to say.
TEST(WarningsOfCompression, AreNotRepeatedAfterALoss) {
  constexpr int kAll = 4;
  const auto said = [](const AllReduceOptions& options, std::int64_t width) {
    std::barrier all_have_stepped(kAll);
    return testing::logged([&] {
      train_ranks(kAll, LinkKind::inproc, [&](Communicator& communicator) {
        Mlp model{width};
        torch::optim::SGD optimizer(model.parameters(), 0.05);
        const auto replica = make_all_reduce_replica(communicator, model, optimizer, options);
        const auto backward = [&] { loss_of(model, Mlp::batch(0)).backward(); };
        backward();
        replica->step();
        all_have_stepped.arrive_and_wait();
        if (communicator.rank() == kAll - 1) return;
        EXPECT_THROW(backward(), JobFailed);
        communicator.rebuild().or_throw();
        replica->recover_step();
      });
    });
  };
  using ::testing::ContainsRegex;
  using ::testing::Not;
  const std::string dense = said({.compressor = sync::topk({.density = 0.9})}, kWidth);
  EXPECT_THAT(dense, HasSubstr("saves no bytes"));
  EXPECT_THAT(dense, Not(ContainsRegex("saves no bytes(.|\n)*saves no bytes")));
  const std::string small = said({.code = kernels::Code::int4}, 4);
  EXPECT_THAT(small, HasSubstr("compress changes nothing"));
  EXPECT_THAT(small, Not(ContainsRegex("changes nothing(.|\n)*changes nothing")));
}

struct Said {
  std::string text;
  double mean_norm = 0;  // of what those who go on have kept
};

// Of four ranks, the last is lost after a step. Those who are left begin a new exchange, or take
// the step again where they are.
Said said_of_loss(const AllReduceOptions& options, bool retakes) {
  constexpr int kAll = 4;
  std::barrier all_have_stepped(kAll);
  std::atomic<double> norms = 0;
  const std::string text = testing::logged([&] {
    train_ranks(kAll, LinkKind::inproc, [&](Communicator& communicator) {
      Mlp model{kWidth};
      torch::optim::SGD optimizer(model.parameters(), 0.05);
      std::unique_ptr<Replica> replica;
      AllReduceOptions own = options;
      if (retakes)
        own.regroup = [&] {
          communicator.rebuild().or_throw();
          replica->recover_step();
          return true;
        };
      replica = make_all_reduce_replica(communicator, model, optimizer, own);
      const auto backward = [&] { loss_of(model, Mlp::batch(communicator.rank())).backward(); };
      backward();
      replica->step();
      const bool stays = communicator.rank() < kAll - 1;
      double squares = 0;
      for (const torch::Tensor& kept : kept_by(*replica))
        squares += kept.to(torch::kFloat64).square().sum().item<double>();
      if (stays) norms += std::sqrt(squares);
      all_have_stepped.arrive_and_wait();
      if (!stays) return;
      if (retakes) {
        backward();
        replica->step();
      } else {
        EXPECT_THROW(backward(), JobFailed);
        communicator.rebuild().or_throw();
        replica->recover_step();
      }
      EXPECT_EQ(communicator.size(), kAll - 1);
    });
  });
  return {text, norms / (kAll - 1)};
}

TEST(WhatALostWorkerHadKept, IsToldByTheMeanOfTheOthers) {
  for (const bool retakes : {false, true}) {
    const Said one = said_of_loss({.compressor = sync::topk({.density = 0.01})}, retakes);
    EXPECT_GT(one.mean_norm, 0);
    EXPECT_THAT(one.text,
                HasSubstr(fmt::format("what a lost worker had kept for later exchanges is lost: "
                                      "a norm of about {:.4g}, which is the mean of what the 3 "
                                      "have kept who go on",
                                      one.mean_norm)));
    EXPECT_EQ(one.text.find("later exchanges"), one.text.rfind("later exchanges"));  // once
    AllReduceOptions int4{.code = kernels::Code::int4, .feedback = true};
    int4.bucket_bytes = int4.first_bucket_bytes = 1;
    EXPECT_THAT(said_of_loss(int4, retakes).text, HasSubstr("what a lost worker had kept"));
    EXPECT_THAT(said_of_loss({}, retakes).text, ::testing::Not(HasSubstr("had kept")));
  }
}

}  // namespace
}  // namespace asup
