// The ways in which workers step on their own, by the suite of all replicas.
#include "asup/sync/averaging/adpsgd_replica.h"
#include "asup/sync/averaging/diloco_replica.h"
#include "asup/sync/averaging/gossip_replica.h"
#include "asup/sync/averaging/local_replica.h"
#include "tests/sync/replica_conformance.h"

namespace asup::testing {
namespace {

using Make = std::function<std::unique_ptr<Replica>(Communicator&, torch::nn::Module&,
                                                    torch::optim::Optimizer&)>;

// Models are averaged, so what Adam does or what only some ranks use differs from one process;
// where a way follows one, its own test says so.
ReplicaWay way(std::string name, bool equal_after_steps, Make make) {
  return {.name = std::move(name),
          .run =
              [make = std::move(make)](int ranks, net::LinkKind links,
                                       const std::function<void(const Trainee&)>& body) {
                train_ranks(ranks, links, [&](Communicator& communicator) {
                  body({communicator.rank(), [&](auto& module, auto& optimizer) {
                          return make(communicator, module, optimizer);
                        }});
                });
              },
          .equal_after_steps = equal_after_steps,
          .follows_one_process = false,
          .rounding = 1e-6};
}

const ReplicaWay kEveryStep =
    way("local", true, [](auto& communicator, auto& module, auto& optimizer) {
      return make_local_replica(communicator, module, optimizer, {.every = 1});
    });
const ReplicaWay kTwoSteps =
    way("local_2", false, [](auto& communicator, auto& module, auto& optimizer) {
      return make_local_replica(communicator, module, optimizer,
                                {.every = 2, .state = MergeState::keep});
    });

// Whoever has a partner: one rank has none.
const ReplicaWay kPairs{
    .name = "pairwise",
    .run =
        [](int ranks, net::LinkKind links, const std::function<void(const Trainee&)>& body) {
          run_ranks(ranks, links, [&](Job& job) {
            CommunicatorOptions options;
            options.timeout = testing::kPatience;
            const auto communicator = make_communicator(job, options);
            body({job.rank(), [&](auto& module, auto& optimizer) {
                    return make_adpsgd_replica(*communicator, net::workers_of(job), module,
                                               optimizer);
                  }});
            (void)communicator->barrier();  // partners that are done still answer
          });
        },
    .equal_after_steps = false,
    .follows_one_process = false,
    .exchanges_every_step = false,
    .repeats = false,
    .rounding = 1e-6};

std::vector<ReplicaCase> cases_of_pairs() {
  std::vector<ReplicaCase> cases = replica_cases(kPairs);
  std::erase_if(cases, [](const ReplicaCase& one) { return one.ranks < 2; });
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Pairwise, ReplicaConformance, ::testing::ValuesIn(cases_of_pairs()),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Local, ReplicaConformance, ::testing::ValuesIn(replica_cases(kEveryStep)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(LocalSteps, ReplicaConformance,
                         ::testing::ValuesIn(replica_cases(kTwoSteps)), name_of_case);

const ReplicaWay kRing =
    way("gossip", false, [](auto& communicator, auto& module, auto& optimizer) {
      return make_gossip_replica(communicator, module, optimizer);
    });
const ReplicaWay kExponential =
    way("gossip_exponential", false, [](auto& communicator, auto& module, auto& optimizer) {
      return make_gossip_replica(communicator, module, optimizer, {.graph = "exponential"});
    });

INSTANTIATE_TEST_SUITE_P(Ring, ReplicaConformance, ::testing::ValuesIn(replica_cases(kRing)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Exponential, ReplicaConformance,
                         ::testing::ValuesIn(replica_cases(kExponential)), name_of_case);

const ReplicaWay kDiloco =
    way("diloco", true, [](auto& communicator, auto& module, auto& optimizer) {
      return make_diloco_replica(communicator, module, optimizer, {.every = 1});
    });
const ReplicaWay kStreaming =
    way("diloco_streaming", false, [](auto& communicator, auto& module, auto& optimizer) {
      return make_diloco_replica(communicator, module, optimizer,
                                 {.every = 3, .overlap = 1, .fragments = 3, .in_bf16 = true});
    });

INSTANTIATE_TEST_SUITE_P(Diloco, ReplicaConformance, ::testing::ValuesIn(replica_cases(kDiloco)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Streaming, ReplicaConformance,
                         ::testing::ValuesIn(replica_cases(kStreaming)), name_of_case);

}  // namespace
}  // namespace asup::testing
