// A worker that averages in pairs, meets in quorums and deals samples, and others that say what
// they like of it.
#include "asup/gossip/exchanger.h"
#include "asup/gossip/quorum.h"
#include "asup/gossip/sample_dealer.h"
#include "tests/fuzz/peers.h"

namespace asup::gossip {
namespace {

constexpr int kWorkers = 3;
constexpr std::size_t kElements = 20;

void play_exchanger(fuzz::Input& input) {
  fuzz::Peers peers(input.below(kWorkers), kWorkers, 0, false);
  Exchanger exchanger(peers.group(), kElements,
                      {.graph = Graph::complete(kWorkers),
                       .in_bf16 = input.below(2) != 0,
                       .patience = Seconds(0.01),
                       .chunk = 8});
  std::vector<float> model(kElements);
  exchanger.open(model);
  for (int turn = 0; !input.empty() && turn < 64; ++turn) {
    const int member = input.below(kWorkers);
    const Exchange exchange{input.number<std::int8_t>(), 0, input.number<std::uint8_t>()};
    switch (input.below(12)) {
      case 0:
        peers.say_body(member, Ask{exchange, kElements});
        break;
      case 1:
        peers.say_body(member, Accept{exchange});
        break;
      case 2:
        peers.say_body(member, Busy{exchange});
        break;
      case 3:
        peers.say_body(member, Chunk{exchange, input.number<std::uint64_t>()}, input.piece());
        break;
      case 4: {
        const std::vector<std::byte> all(kElements * sizeof(float));
        peers.say_body(member, Chunk{exchange, 0}, all);
        break;
      }
      case 5:
        peers.say_body(member, Got{exchange});
        break;
      case 6:
        peers.say_body(member, Done{exchange});
        break;
      case 7:
        peers.say_body(member, Cancel{exchange});
        break;
      case 8:
        peers.leave(member);
        break;
      case 9:
        exchanger.visit(model, true);
        break;
      case 10:
        peers.say_any<Ask>(member, input);
        break;
      default: {
        const auto head = input.piece();
        peers.say(member, head, input.piece());
      }
    }
    peers.settle();
  }
}

void play_quorum(fuzz::Input& input) {
  const int rank = input.below(kWorkers);
  fuzz::Peers peers(rank, kWorkers, 0, false);
  Quorum quorum(peers.group());
  const std::vector<int> all{0, 1, 2};
  for (std::uint64_t turn = 1; !input.empty() && turn < 24; ++turn) {
    for (int count = input.below(5); count > 0; --count) {
      const int member = input.below(kWorkers);
      if (input.below(2) == 0)
        peers.say_any<Here>(member, input);
      else
        peers.say_any<QuorumMessage>(member, input);
    }
    try {
      (void)quorum.come(turn, all, Seconds(0.001), Seconds(0.002));
      (void)quorum.agree(Quorum::Milestone::merged, Seconds(0.001));
    } catch (const JobFailed&) {
    }
  }
}

void play_dealer(fuzz::Input& input) {
  fuzz::Peers peers(input.below(2), kWorkers, 0, false);
  SampleDealer dealer(peers.group());
  dealer.begin(0, DealtSamples());
  for (int turn = 0; !input.empty() && turn < 64; ++turn) {
    const int member = input.below(kWorkers);
    switch (input.below(5)) {
      case 0:
        peers.say_any<WantSamples>(member, input);
        break;
      case 1:
        peers.say_any<SamplesDone>(member, input);
        break;
      case 2:
        peers.say_any<DealSamples>(member, input);
        break;
      case 3:
        try {
          (void)dealer.ask(8, 100, Seconds(0.001));
        } catch (const JobFailed&) {
        }
        break;
      default:
        peers.say_body(member, WantSamples{1, input.number<std::uint8_t>(), 1000,
                                           input.number<std::uint8_t>()});
    }
    peers.settle();
  }
}

}  // namespace
}  // namespace asup::gossip

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  asup::fuzz::Input input(data, size);
  switch (input.below(3)) {
    case 0:
      asup::gossip::play_exchanger(input);
      break;
    case 1:
      asup::gossip::play_quorum(input);
      break;
    default:
      asup::gossip::play_dealer(input);
  }
  return 0;
}
