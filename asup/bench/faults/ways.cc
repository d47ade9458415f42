#include "asup/bench/faults/ways.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "asup/base/error.h"

namespace asup::bench {
namespace {

constexpr auto kMemory = AfterLoss::from_memory;
constexpr auto kCheckpoint = AfterLoss::from_checkpoint;
constexpr auto kOwnPace = AfterLoss::own_pace;
constexpr auto kEnds = AfterLoss::ends;
constexpr bool kFollowsOne = true, kDiffers = false;

// Large enough to have more than one bucket, and to take several rounds over TCP.
constexpr const char* kTcp = "--links=tcp --bucket-mb=0.01";

FaultyWay in_groups(int size, FaultyWay way) {
  way.group = size;
  return way;
}
FaultyWay mlp_alone(FaultyWay way) {
  way.mlp_only = true;
  return way;
}
FaultyWay without_a_server(FaultyWay way) {
  way.loses_server = true;
  return way;
}
FaultyWay a_program(FaultyWay way) {
  way.is_program = true;
  return way;
}

// Name, flags, what the others do, whether losses are those of one process, servers.
std::vector<FaultyWay> make_ways() {
  return {
      {"allreduce", "", kMemory, kFollowsOne},
      {"bsp", "--sync=server", kOwnPace, kFollowsOne, 2},
      {"local", "--sync=local --every=4", kMemory},
      in_groups(2, {"pipeline", "--pipeline=2", kEnds, kFollowsOne}),
      {"adpsgd", "--sync=adpsgd --graph=exponential", kOwnPace},
      {"shard-optimizer", "--shard=optimizer", kCheckpoint, kFollowsOne},
      a_program({"program", "", kMemory, kFollowsOne}),
      {"asup", "--sync=asup --keep-servers", kOwnPace, kDiffers, 1},
      {"int4", "--compress=int4", kMemory},
      {"diloco", "--sync=diloco --every=5", kMemory},
      without_a_server({"server-lost", "--sync=server", kEnds, kFollowsOne, 2}),
      {"tcp", kTcp, kMemory, kFollowsOne},
      {"gossip", "--sync=gossip", kMemory},
      {"shard-parameters", "--shard=parameters", kCheckpoint, kFollowsOne},
      {"ssp", "--sync=server --pace=ssp --staleness=2", kOwnPace, kDiffers, 1},
      {"then-local", "--then=local --at=50%", kMemory},
      mlp_alone(in_groups(2, {"tensor", "--tensor=2", kEnds, kFollowsOne})),
      {"powersgd", "--compress=powersgd", kMemory},
      {"slowmo", "--sync=slowmo --every=6", kMemory},
      {"asp", "--sync=server --pace=asp", kOwnPace, kDiffers, 1},
      a_program({"program-diloco", "ASUP_SYNC=diloco ASUP_EVERY=5", kMemory}),
      {"topk", "--compress=topk --compress-per=host", kCheckpoint},
      {"easgd", "--sync=server --merge=easgd --every=4", kOwnPace, kDiffers, 1},
      in_groups(2, {"pipeline-servers", "--sync=server --pipeline=2", kEnds, kDiffers, 1}),
      {"onebit", "--compress=onebit", kMemory},
      {"adpsgd-ring", "--sync=adpsgd --graph=ring", kOwnPace},
      {"shard-gradients", "--shard=gradients", kCheckpoint, kFollowsOne},
      {"kasync", "--sync=server --pace=kasync --gather=2", kOwnPace, kDiffers, 1},
      {"int8", "--compress=int8", kMemory},
      {"rounds", "--sync=local --round-seconds=0.1", kOwnPace},
      a_program({"program-bsp", "ASUP_SYNC=server", kOwnPace, kDiffers, 1}),
      {"dgc-worker", "--compress=dgc --compress-per=worker", kMemory},
      mlp_alone(in_groups(4, {"pipeline-tensor", "--pipeline=2 --tensor=2", kEnds, kFollowsOne})),
      {"then-allreduce", "--sync=server --then=allreduce --at=50%", kOwnPace, kDiffers, 1},
      {"gossip-exponential", "--sync=gossip --graph=exponential --every=2", kMemory},
      {"dgc", "--compress=dgc --compress-per=host", kCheckpoint},
      {"topk-worker", "--compress=topk --compress-per=worker", kMemory},
      a_program({"program-tcp", "ASUP_LINKS=tcp ASUP_BUCKET_MB=0.001", kMemory, kFollowsOne})};
}

}  // namespace

std::string word_of(AfterLoss after) {
  switch (after) {
    case AfterLoss::from_memory:
      return "memory";
    case AfterLoss::from_checkpoint:
      return "checkpoint";
    case AfterLoss::own_pace:
      return "own pace";
    case AfterLoss::ends:
      return "ends";
  }
  throw Error("no such end");
}

const std::vector<FaultyWay>& faulty_ways() {
  static const std::vector<FaultyWay> ways = make_ways();
  return ways;
}

std::vector<std::string> names_of_faulty_ways() {
  std::vector<std::string> names;
  for (const FaultyWay& way : faulty_ways()) names.push_back(way.name);
  return names;
}

std::vector<FaultyWay> chosen_faulty_ways(const std::vector<std::string>& names) {
  if (names.empty()) return faulty_ways();
  std::vector<FaultyWay> ways;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(faulty_ways(), name, &FaultyWay::name);
    require(found != faulty_ways().end(), "--ways {}: there is {}", name,
            fmt::join(names_of_faulty_ways(), ", "));
    ways.push_back(*found);
  }
  return ways;
}

}  // namespace asup::bench
