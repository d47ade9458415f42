// A worker, and servers that say what they like, before it asks or after.
#include "asup/ps/client.h"
#include "tests/fuzz/peers.h"

namespace asup::ps {
namespace {

constexpr int kServers = 2;
constexpr Seconds kShort{0.002};

ServerSetup setup_of(int which) {
  ServerSetup setup;
  append(setup.layout, 0, {"a", 40});
  append(setup.layout, 1, {"b", 24});
  if ((which & 1) != 0) {
    setup.code = kernels::Code::bf16;
    setup.coded = {1};
  }
  if ((which & 2) != 0) setup.rules[0].kind = kernels::Rule::Kind::adam;
  return setup;
}

class Game {
 public:
  explicit Game(fuzz::Input& input)
      : input_(input),
        setup_(setup_of(input.number<std::uint8_t>())),
        peers_(0, 1, kServers, input.below(2) != 0),
        client_(peers_.group(), setup_, {}, kShort) {}

  void play() {
    const std::vector<float> gradient(setup_.layout.elements);
    const double lr = 0.1;
    for (int server = 0; server < kServers; ++server) peers_.say_body(1 + server, Welcome{0});
    act([&] { client_.begin(true); });
    for (int turn = 0; !input_.empty() && turn < 32; ++turn) {
      hear();
      switch (input_.below(7)) {
        case 0:
          act([&] { client_.arrive({0}); });
          hear();
          act([&] { (void)client_.wait(); });
          break;
        case 1:
          act([&] {
            client_.push({0, setup_.layout.elements}, gradient.data());
            client_.commit({}, {&lr, 1});
          });
          hear();
          act([&] { (void)client_.wait(); });
          break;
        case 2:
          act([&] { (void)client_.report(); });
          break;
        case 3:
          act([&] {
            client_.fetch_state(
                {0, setup_.layout.elements}, [](auto) {}, [](std::size_t, Range, const float*) {});
          });
          break;
        case 4:
          act([&] { client_.fetch_parameters_now(); });
          break;
        case 5:
          act([&] { (void)client_.known(); });
          break;
        default:
          peers_.settle();
      }
    }
  }

 private:
  // What comes from the servers next.
  void hear() {
    for (int count = input_.below(6); count > 0; --count) {
      const int member = 1 + input_.below(kServers);
      switch (input_.below(11)) {
        case 0:
          peers_.say_any<Welcome>(member, input_);
          break;
        case 1:
          peers_.say_any<Refused>(member, input_);
          break;
        case 2:
          peers_.say_any<Parameters>(member, input_);
          break;
        case 3:
          peers_.say_any<Difference>(member, input_);
          break;
        case 4:
          peers_.say_any<Release>(member, input_);
          break;
        case 5:
          peers_.say_any<StateUpdates>(member, input_);
          break;
        case 6:
          peers_.say_any<State>(member, input_);
          break;
        case 7:
          peers_.say_any<Report>(member, input_);
          break;
        case 8: {
          const Range shard = shards_of(setup_, kServers)[static_cast<std::size_t>(member - 1)];
          peers_.say_body(member, Parameters{1, shard},
                          std::vector<std::byte>(shard.size() * sizeof(float)));
          break;
        }
        case 9:
          peers_.say_body(member, Release{.version = 1, .step = 1, .end = 4});
          break;
        default: {
          const auto head = input_.piece();
          peers_.say(member, head, input_.piece());
        }
      }
    }
  }

  template <typename Action>
  static void act(const Action& action) {
    try {
      action();
    } catch (const JobFailed&) {
    }
  }

  fuzz::Input& input_;
  const ServerSetup setup_;
  fuzz::Peers peers_;
  Client client_;
};

}  // namespace
}  // namespace asup::ps

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  asup::fuzz::Input input(data, size);
  asup::ps::Game(input).play();
  return 0;
}
