#include "tests/sync/replica_conformance.h"

#include "asup/sync/gradients/all_reduce_replica.h"

namespace asup::testing {
namespace {

// Several buckets even for a small model.
const ReplicaWay kAllReduce{
    .name = "all_reduce",
    .run =
        [](int ranks, net::LinkKind links, const std::function<void(const Trainee&)>& body) {
          train_ranks(ranks, links, [&](Communicator& communicator) {
            body({communicator.rank(), [&](auto& module, auto& optimizer) {
                    return make_all_reduce_replica(
                        communicator, module, optimizer,
                        {.bucket_bytes = 600, .first_bucket_bytes = 100});
                  }});
          });
        },
    .averages_gradients = true};

INSTANTIATE_TEST_SUITE_P(AllReduce, ReplicaConformance,
                         ::testing::ValuesIn(replica_cases(kAllReduce)), name_of_case);

}  // namespace
}  // namespace asup::testing
