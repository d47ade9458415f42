// A way to keep ranks in step, and the cases its replicas are tried in.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "asup/base/error.h"
#include "asup/sync/model/device.h"
#include "asup/sync/replica.h"
#include "tests/sync/conformance/trained_models.h"
#include "tests/sync/training.h"

namespace asup::testing {

// One rank of a job, and how a replica is made there, once.
struct Trainee {
  int rank;
  std::function<std::unique_ptr<Replica>(torch::nn::Module&, torch::optim::Optimizer&)> make;
};

struct ReplicaWay {
  std::string name;
  // Calls `body` on each of so many ranks.
  std::function<void(int ranks, net::LinkKind links,
                     const std::function<void(const Trainee&)>& body)>
      run;
  bool equal_after_steps = true;    // all ranks have the same bits after every step
  bool follows_one_process = true;  // n ranks with parts of a batch do what one does with all of it
  bool skips_unused = true;         // what no rank used stays; else it has a gradient of zeros
  bool exchanges_every_step = true;
  bool averages_gradients = false;  // grad() is the average of all ranks when backward returns
  bool keeps_gradients = true;      // else there is none then
  bool repeats = true;              // the same bits each time
  double rounding = 0;              // the mean of equal models may be off by so much, by their size
};

struct ReplicaCase {
  ReplicaWay way;
  net::LinkKind links;
  int ranks;
  bool copies = false;  // as if the model were on a GPU, whose memory links do not reach
};

inline std::vector<ReplicaCase> replica_cases(const ReplicaWay& way) {
  return {{way, net::LinkKind::inproc, 1},       {way, net::LinkKind::inproc, 2},
          {way, net::LinkKind::shm, 3},          {way, net::LinkKind::tcp, 4},
          {way, net::LinkKind::inproc, 2, true}, {way, net::LinkKind::shm, 3, true}};
}

inline std::string name_of_case(const ::testing::TestParamInfo<ReplicaCase>& info) {
  return info.param.way.name + "_" + name_of(info.param.links) + "_" +
         std::to_string(info.param.ranks) + (info.param.copies ? "_copies" : "");
}

class ReplicaConformance : public ::testing::TestWithParam<ReplicaCase> {
 protected:
  using Optimizers = std::function<std::unique_ptr<torch::optim::Optimizer>(torch::nn::Module&)>;

  int ranks() const { return GetParam().ranks; }
  const ReplicaWay& way() const { return GetParam().way; }
  void run(const std::function<void(const Trainee&)>& body) const {
    torch::set_num_threads(1);
    const sync::ForcedCopies forced(GetParam().copies);
    way().run(ranks(), GetParam().links, body);
  }

  void expect_followed(const torch::nn::Module& model, const torch::nn::Module& alone) const {
    if (!way().follows_one_process) return;
    EXPECT_LT(distance(snapshot(model), snapshot(alone)), 1e-6);
  }

  using Schedules =
      std::function<std::unique_ptr<torch::optim::LRScheduler>(torch::optim::Optimizer&)>;

  // Trains an Mlp on all ranks and, where promised, compares with one process.
  void follow(const Optimizers& optimizer_of, bool set_to_none, int steps = 8,
              const Schedules& schedule_of = nullptr) const {
    Mlp alone;
    const auto optimizer = optimizer_of(alone);
    const auto schedule = schedule_of ? schedule_of(*optimizer) : nullptr;
    for (int step = 0; step < steps; ++step) {
      optimizer->zero_grad(set_to_none);
      loss_of(alone, Mlp::batch(step)).backward();
      optimizer->step();
      if (schedule) schedule->step();
    }
    run([&](const Trainee& trainee) {
      Mlp model;
      fill(model, 1 + 100 * trainee.rank);
      const auto mine = optimizer_of(model);
      const auto replica = trainee.make(model, *mine);
      const auto my_schedule = schedule_of ? schedule_of(*mine) : nullptr;
      for (int step = 0; step < steps; ++step) {
        mine->zero_grad(set_to_none);
        loss_of(model, part(Mlp::batch(step), trainee.rank, ranks())).backward();
        EXPECT_EQ(replica->step(), StepResult::applied);
        if (my_schedule) my_schedule->step();
      }
      if (way().equal_after_steps) replica->check_equal();
      expect_followed(model, alone);
    });
  }
};

}  // namespace asup::testing
