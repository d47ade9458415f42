// Embedding tables: a server with workers that say what they like, or a worker with such servers.
#include "asup/ps/table/client.h"
#include "asup/ps/table/server.h"
#include "tests/fuzz/peers.h"

namespace asup::ps::table {
namespace {

constexpr int kWorkers = 2, kServers = 2;

TableSetup setup_of(int which) {
  TableSetup setup;
  setup.name = which % 2 == 0 ? "users" : "items";
  setup.rows = 10;
  setup.width = 4;
  setup.synchronous = which < 2;
  if (which % 4 == 3) setup.rule.kind = kernels::Rule::Kind::adam;
  return setup;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

void say_to_server(fuzz::Peers& peers, int worker, fuzz::Input& input) {
  switch (input.below(16)) {
    case 0:
      return peers.say_body(worker, Hello{static_cast<std::uint64_t>(input.below(3))},
                            bytes_of(to_text(setup_of(input.below(4)))));
    case 1:
      return peers.say_any<Hello>(worker, input);
    case 2:
      return peers.say_any<Pull>(worker, input);
    case 3:
      return peers.say_any<Push>(worker, input);
    case 4:
      return peers.say_any<Commit>(worker, input);
    case 5:
      return peers.say_any<Meet>(worker, input);
    case 6:
      return peers.say_any<Read>(worker, input);
    case 7:
      return peers.say_any<Write>(worker, input);
    case 8:
      return peers.say_any<Leave>(worker, input);
    case 9: {  // a row of this server, and a step with it
      const std::uint64_t row = 2 * static_cast<std::uint64_t>(input.below(6));
      std::vector<std::byte> push(sizeof row + 4 * sizeof(float));
      std::memcpy(push.data(), &row, sizeof row);
      return peers.say_body(worker, Push{static_cast<std::uint64_t>(input.below(2)), 1}, push);
    }
    case 10: {
      const std::vector<TableStep> steps(static_cast<std::size_t>(input.below(3)),
                                         TableStep{0.1, 1});
      return peers.say_body(worker, Commit{static_cast<std::uint64_t>(input.below(3))},
                            std::as_bytes(std::span(steps)));
    }
    case 11: {
      const std::uint64_t rows[] = {0, 2, 4};
      return peers.say_body(worker, Pull{1, static_cast<std::uint64_t>(input.below(2))},
                            std::as_bytes(std::span(rows)));
    }
    case 12:
      return peers.leave(worker);
    default: {
      const auto head = input.piece();
      return peers.say(worker, head, input.piece());
    }
  }
}

void play_server(fuzz::Input& input) {
  fuzz::Peers peers(kWorkers, kWorkers, kServers, false);
  const Server server(peers.group());
  for (int turn = 0; !input.empty() && turn < 64; ++turn) {
    say_to_server(peers, input.below(kWorkers), input);
    peers.settle();
  }
}

void hear(fuzz::Peers& peers, fuzz::Input& input) {
  for (int count = input.below(5); count > 0; --count) {
    const int server = 1 + input.below(kServers);
    switch (input.below(8)) {
      case 0:
        peers.say_any<Welcome>(server, input);
        break;
      case 1:
        peers.say_any<Refused>(server, input);
        break;
      case 2:
        peers.say_any<Applied>(server, input);
        break;
      case 3:
        peers.say_any<Met>(server, input);
        break;
      case 4:
        peers.say_any<Answer>(server, input);
        break;
      case 5: {
        const std::vector<std::byte> rows(static_cast<std::size_t>(input.below(8)) * 8);
        peers.say_body(server, Answer{static_cast<std::uint64_t>(input.below(8)), 1}, rows);
        break;
      }
      default: {
        const auto head = input.piece();
        peers.say(server, head, input.piece());
      }
    }
  }
}

void play_client(fuzz::Input& input) {
  fuzz::Peers peers(0, 1, kServers, false);
  Client client(peers.group(), Seconds(0.002));
  const TableSetup setup = setup_of(1);
  std::vector<float> rows(setup.rows * record_floats(setup));
  DistinctRows distinct{{0, 2, 1}, {0, 2, 3}, {}};
  const TableStep step{0.1, 1};
  for (int turn = 0; !input.empty() && turn < 32; ++turn) try {
      for (int server = 0; turn == 0 && server < kServers; ++server)
        peers.say_body(1 + server, Welcome{0});
      if (turn > 0) hear(peers, input);
      switch (turn == 0 ? 0 : input.below(6)) {
        case 0:
          client.add(setup);
          break;
        case 1:
          client.pull(0, distinct, rows.data());
          break;
        case 2:
          client.push(0, distinct, rows.data());
          break;
        case 3:
          client.commit(4, {&step, 1});
          break;
        case 4:
          (void)client.meet();
          break;
        default:
          (void)client.read_records(0, {0, setup.rows}, rows.data());
      }
    } catch (const JobFailed&) {
    } catch (const BadInput&) {
    }
}

}  // namespace
}  // namespace asup::ps::table

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  asup::fuzz::Input input(data, size);
  if (input.below(2) == 0)
    asup::ps::table::play_server(input);
  else
    asup::ps::table::play_client(input);
  return 0;
}
