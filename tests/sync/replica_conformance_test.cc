#include "tests/sync/replica_conformance.h"

#include "asup/sync/gradients/all_reduce_replica.h"

namespace asup::testing {
namespace {

// Several buckets even for a small model.
ReplicaWay all_reduce(std::string name, Shard shard) {
  return {
      .name = std::move(name),
      .run =
          [shard](int ranks, net::LinkKind links, const std::function<void(const Trainee&)>& body) {
            train_ranks(ranks, links, [&](Communicator& communicator) {
              body({communicator.rank(), [&](auto& module, auto& optimizer) {
                      return make_all_reduce_replica(
                          communicator, module, optimizer,
                          {.bucket_bytes = 600, .first_bucket_bytes = 100, .shard = shard});
                    }});
            });
          },
      .averages_gradients = shard != Shard::gradients,
      .keeps_gradients = shard != Shard::gradients};
}

// Gradients are cut on the CPU, among several.
std::vector<ReplicaCase> that_cut_gradients(std::vector<ReplicaCase> cases) {
  std::erase_if(cases, [](const ReplicaCase& each) { return each.copies || each.ranks == 1; });
  return cases;
}

INSTANTIATE_TEST_SUITE_P(AllReduce, ReplicaConformance,
                         ::testing::ValuesIn(replica_cases(all_reduce("all_reduce", Shard::none))),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(ShardedOptimizer, ReplicaConformance,
                         ::testing::ValuesIn(replica_cases(all_reduce("sharded_optimizer",
                                                                      Shard::optimizer))),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(ShardedGradients, ReplicaConformance,
                         ::testing::ValuesIn(that_cut_gradients(
                             replica_cases(all_reduce("sharded_gradients", Shard::gradients)))),
                         name_of_case);

}  // namespace
}  // namespace asup::testing
