// A parameter server, and workers and other servers that say what they like: sound greetings,
// pushes and commands, so that all that can follow on them is reached, and any heads and payloads
// between.
#include <cstring>

#include "asup/layout/layout.h"
#include "asup/ps/server.h"
#include "tests/fuzz/peers.h"

namespace asup::ps {
namespace {

constexpr int kWorkers = 2;

ServerSetup setup_of(int which) {
  ServerSetup setup;
  append(setup.layout, 0, {"a", 40});
  append(setup.layout, 1, {"b", 24});
  if ((which & 1) != 0) {
    setup.work = pace::Workload{
        .steps = 6, .batch = 4, .steps_per_epoch = 3, .last_batch = 4, .sync_points = {2}};
    setup.pace.kind = pace::Kind::asp;
  }
  if ((which & 2) != 0) {
    setup.rules[0].kind = kernels::Rule::Kind::momentum;
    setup.rules[0].momentum = 0.9;
    setup.with_state = true;
  }
  if ((which & 4) != 0) {
    setup.code = kernels::Code::int8;
    setup.coded = {1};
  } else if ((which & 8) != 0) {
    setup.parts = {{0, 40}, {40, 64}};
    setup.teams = {0, 0};
  }
  if ((which & 16) != 0) setup.compensation = 0.5;
  return setup;
}

class Game {
 public:
  explicit Game(fuzz::Input& input)
      : input_(input),
        setup_(setup_of(input.number<std::uint8_t>())),
        servers_(1 + input.below(2)),
        own_(kWorkers + input.below(servers_)),
        peers_(own_, kWorkers, servers_, input.below(2) != 0),
        server_(peers_.group(), {.threads = 1, .patience = Seconds(1)}) {}

  void play() {
    for (int turn = 0; !input_.empty() && turn < 64; ++turn) {
      const int what = input_.below(32);
      if (what < 8)
        say_soundly(input_.below(kWorkers), what);
      else
        say_anything(input_.below(kWorkers + servers_), what);
      peers_.settle();
    }
    // Whoever is left goes, and the server has done.
    for (int member = 0; member < kWorkers + servers_; ++member) peers_.leave(member);
    peers_.settle();
    try {
      server_.run();
    } catch (const JobFailed&) {
    }
  }

 private:
  Range shard() const {
    return shards_of(setup_, servers_)[static_cast<std::size_t>(own_ - kWorkers)];
  }
  Range of(int worker) const {
    return setup_.parts.empty() ? shard()
                                : intersection(shard(), setup_.parts[static_cast<size_t>(worker)]);
  }

  void say_soundly(int worker, int what) {
    const Range range = of(worker);
    const std::vector<std::byte> floats(range.size() * sizeof(float));
    switch (what) {
      case 0:
        return greet(worker, to_text(setup_));
      case 1:
        return peers_.say_body(worker, Initial{range, {}}, floats);
      case 2:
        return send_state(worker);
      case 3:
        return push(worker);
      case 4:
        return peers_.say_body(worker, Arrive{});
      case 5:
        return command();
      case 6:
        return peers_.say_body(worker, AskState{AskState::kParameters, 0, range});
      default:  // all that comes before the first push
        for (int each = 0; each < kWorkers; ++each) {
          greet(each, to_text(setup_));
          if (each == 0 || !setup_.parts.empty()) {
            const Range own = of(each);
            peers_.say_body(each, Initial{own, {}},
                            std::vector<std::byte>(own.size() * sizeof(float)));
            if (setup_.with_state) send_state(each);
          }
          peers_.say_body(each, Arrive{});
        }
    }
  }

  void greet(int worker, const std::string& text) {
    const Range range = of(worker);
    const auto text_bytes = std::as_bytes(std::span(text));
    std::vector<std::byte> payload(text_bytes.begin(), text_bytes.end());
    if (!range.empty()) {
      const auto range_bytes = std::as_bytes(std::span(&range, 1));
      payload.insert(payload.end(), range_bytes.begin(), range_bytes.end());
    }
    peers_.say_body(worker, Hello{text.size(), {}, 0}, payload);
  }

  void send_state(int worker) {
    const Range range = of(worker);
    const std::size_t tensors = parts_in(setup_.layout, range).size();
    peers_.say_body(worker, StateUpdates{0, range},
                    std::vector<std::byte>(tensors * sizeof(double)));
    for (std::uint32_t slot = 0; slot < state_slots(setup_); ++slot)
      peers_.say_body(worker, State{0, slot, 0, range},
                      std::vector<std::byte>(range.size() * sizeof(float)));
  }

  void push(int worker) {
    const std::uint64_t number = ++pushes_[worker];
    const CodedParts coded = coded_parts(setup_);
    for (const auto& [range, is_coded] : coded.cut(of(worker)))
      peers_.say_body(
          worker, Piece{number, range, {}},
          std::vector<std::byte>(is_coded ? coded.bytes_of(range) : range.size() * sizeof(float)));
    Commit commit{number, {}};
    commit.figures.samples = input_.below(4);
    const double lr = 0.1;
    peers_.say_body(worker, commit, std::as_bytes(std::span(&lr, 1)));
  }

  void command() {
    Command command;
    command.version = ++version_;
    command.gain = 1;
    const int parts = input_.below(3), dropped = input_.below(2), released = input_.below(3);
    for (int i = 0; i < parts; ++i)
      command.parts.push_back({input_.number<std::int8_t>(), 0, input_.number<std::uint8_t>(), 1});
    for (int i = 0; i < dropped; ++i)
      command.dropped.push_back(
          {input_.number<std::int8_t>(), 0, input_.number<std::uint8_t>(), 0});
    for (int i = 0; i < released; ++i) command.released.push_back(input_.number<std::int8_t>());
    peers_.say_body(kWorkers, head_of_command(command), payload_of(command));
  }

  void say_anything(int member, int what) {
    switch (what) {
      case 8:
        return peers_.say_any<Hello>(member, input_);
      case 9:
        return peers_.say_any<Initial>(member, input_);
      case 10:
        return peers_.say_any<Piece>(member, input_);
      case 11:
        return peers_.say_any<Commit>(member, input_);
      case 12:
        return peers_.say_any<Arrive>(member, input_);
      case 13:
        return peers_.say_any<AskSyncPoint>(member, input_);
      case 14:
        return peers_.say_any<Staged>(member, input_);
      case 15:
        return peers_.say_any<CommandHead>(member, input_);
      case 16:
        return peers_.say_any<Squares>(member, input_);
      case 17:
        return peers_.say_any<Norm>(member, input_);
      case 18:
        return peers_.say_any<Known>(member, input_);
      case 19:
        return peers_.say_any<Report>(member, input_);
      case 20:
        return peers_.say_any<StateUpdates>(member, input_);
      case 21:
        return peers_.say_any<State>(member, input_);
      case 22:
        return peers_.say_any<AskStateUpdates>(member, input_);
      case 23:
        return peers_.say_any<AskState>(member, input_);
      case 24:
        return peers_.say_any<Leave>(member, input_);
      case 25:
        return greet(member % kWorkers, input_.text_piece());
      case 26:
        return peers_.leave(member);
      default: {
        const auto head = input_.piece();
        return peers_.say(member, head, input_.piece());
      }
    }
  }

  fuzz::Input& input_;
  const ServerSetup setup_;
  const int servers_, own_;
  fuzz::Peers peers_;
  Server server_;
  std::uint64_t pushes_[kWorkers] = {};
  std::uint64_t version_ = 0;
};

}  // namespace
}  // namespace asup::ps

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  asup::fuzz::Input input(data, size);
  asup::ps::Game(input).play();
  return 0;
}
