// The state of a rule on its way to servers and back.
#include <gmock/gmock.h>

#include "asup/base/error.h"
#include "asup/ps/server.h"
#include "tests/ps/group.h"
#include "tests/ps/raw_member.h"

namespace asup::ps::testing {
namespace {

using net::LinkKind;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Seconds kTimeout{120};

// Several messages a slot, and tensors that lie in two shards.
ServerSetup adam_setup() {
  ServerSetup setup = setup_of({3000, 4000, 1'200'000, 90'000});
  setup.rules[0].kind = kernels::Rule::Kind::adam;
  return setup;
}

// A worker's copy of the state.
struct Copy {
  std::vector<double> updates;
  std::vector<std::vector<float>> slots;

  explicit Copy(const ServerSetup& setup)
      : slots(state_slots(setup), std::vector<float>(setup.layout.elements)) {}

  Client::RuleState reader() const {
    return {updates, [this](std::size_t slot, Range range, float* to) {
              const auto from = slots[slot].begin() + static_cast<std::ptrdiff_t>(range.begin);
              std::copy(from, from + static_cast<std::ptrdiff_t>(range.size()), to);
            }};
  }
  void fetch(Client& client) {
    client.fetch_state(
        {0, slots.empty() ? 0 : slots.front().size()},
        [&](std::span<const double> counts) { updates.assign(counts.begin(), counts.end()); },
        [&](std::size_t slot, Range range, const float* from) {
          EXPECT_LE(range.size(), kMostStateElements);
          std::copy(from, from + range.size(),
                    slots[slot].begin() + static_cast<std::ptrdiff_t>(range.begin));
        });
  }
};

constexpr double kLr[] = {0.01};

Figures figures_of(const Release& release) {
  Figures figures;
  figures.version = release.version;
  figures.samples = 1;
  return figures;
}

Release train(Client& client, int rank, int steps, Release release) {
  std::vector<float> gradient(client.parameters().size());
  for (int step = 0; step < steps; ++step) {
    for (std::size_t i = 0; i < gradient.size(); ++i)
      gradient[i] = client.parameters()[i] * (0.1f + 0.01f * static_cast<float>(i % 7)) +
                    0.5f * static_cast<float>(rank);
    client.push({0, gradient.size()}, gradient.data());
    client.commit(figures_of(release), kLr);
    release = client.wait();
  }
  return release;
}

// Other servers, more of them and over other links, go on from what one worker fetched and sends:
// they end with the bits of those who were not interrupted.
TEST(State, OtherServersGoOnWithWhatAWorkerFetched) {
  ServerSetup setup = adam_setup();
  Copy state(setup);
  std::vector<float> half, whole;
  run_threads({2, 2, LinkKind::shm}, [&](int rank, net::MemberGroup group) {
    Client client(group, setup, {}, kTimeout);
    for (std::size_t i = 0; i < client.parameters().size(); ++i)
      client.parameters()[i] = static_cast<float>(i % 11) - 5.0f;
    client.begin(rank == 0);
    client.arrive();
    const Release release = train(client, rank, 3, client.wait());
    if (rank == 0) {
      state.fetch(client);
      half.assign(client.parameters().begin(), client.parameters().end());
    }
    train(client, rank, 2, release);
    if (rank == 0) whole.assign(client.parameters().begin(), client.parameters().end());
  });
  EXPECT_THAT(state.updates, ElementsAre(3, 3, 3, 3));
  setup.with_state = true;
  for (const LinkKind links : {LinkKind::shm, LinkKind::tcp})
    run_threads({2, 3, links}, [&](int rank, net::MemberGroup group) {
      Client client(group, setup, {}, kTimeout);
      std::copy(half.begin(), half.end(), client.parameters().begin());
      client.begin(rank == 0, state.reader());
      client.arrive();
      train(client, rank, 2, client.wait());
      EXPECT_TRUE(std::equal(whole.begin(), whole.end(), client.parameters().begin()));
    });
}

// Pushes of one of two workers, without a bound, are half a step each: the state is fetched in the
// midst of one, with what its first half has gathered.
TEST(State, InTheMidstOfAStepGoesOnToo) {
  ServerSetup setup = adam_setup();
  setup.pace.kind = pace::Kind::asp;
  Copy state(setup);
  std::vector<float> half, whole;
  const auto first = [](Client& client) {
    for (std::size_t i = 0; i < client.parameters().size(); ++i)
      client.parameters()[i] = static_cast<float>(i % 11) - 5.0f;
  };
  run_threads({2, 2, LinkKind::shm}, [&](int rank, net::MemberGroup group) {
    Client client(group, setup, {}, kTimeout);
    first(client);
    client.begin(rank == 0);
    client.arrive();
    Release release = client.wait();
    if (rank != 0) return;
    release = train(client, rank, 3, release);
    state.fetch(client);
    half.assign(client.parameters().begin(), client.parameters().end());
    train(client, rank, 2, release);
    whole.assign(client.parameters().begin(), client.parameters().end());
  });
  EXPECT_THAT(state.updates, ElementsAre(1.5, 1.5, 1.5, 1.5));
  EXPECT_NE(state.slots.back(), std::vector<float>(state.slots.back().size()));
  setup.with_state = true;
  run_threads({2, 3, LinkKind::tcp}, [&](int rank, net::MemberGroup group) {
    Client client(group, setup, {}, kTimeout);
    std::copy(half.begin(), half.end(), client.parameters().begin());
    client.begin(rank == 0, state.reader());
    client.arrive();
    const Release release = client.wait();
    if (rank != 0) return;
    train(client, rank, 2, release);
    EXPECT_TRUE(std::equal(whole.begin(), whole.end(), client.parameters().begin()));
  });
}

// Each tensor keeps its own count, whichever shard it lies in.
TEST(State, IsCountedByTensor) {
  ServerSetup setup = adam_setup();
  setup.with_state = true;
  Copy sent(setup);
  sent.updates = {7, 0, 5, 123'456'789'012};
  for (std::size_t i = 0; i < sent.slots[1].size(); ++i) sent.slots[1][i] = static_cast<float>(i);
  run_threads({1, 3, LinkKind::tcp}, [&](int, net::MemberGroup group) {
    Client client(group, setup, {}, kTimeout);
    client.begin(true, sent.reader());
    client.arrive();
    client.wait();
    Copy got(setup);
    got.fetch(client);
    EXPECT_EQ(got.updates, sent.updates);
    EXPECT_EQ(got.slots, sent.slots);
    got.fetch(client);  // and again
    EXPECT_EQ(got.slots, sent.slots);
  });
}

TEST(State, OfARuleWithoutAnyIsEmpty) {
  ServerSetup setup = setup_of({100});
  setup.with_state = true;
  run_threads({1, 1, LinkKind::inproc}, [&](int, net::MemberGroup group) {
    Client client(group, setup, {}, kTimeout);
    Copy state(setup);
    state.updates = {4};
    client.begin(true, state.reader());
    client.arrive();
    client.wait();
    state.fetch(client);
    EXPECT_THAT(state.updates, ElementsAre(4));
  });
}

// A worker that sends the first server what is wrong, as a raw member: what it is told.
std::string refusal_of(const std::function<void(RawMember& worker, int server, Range shard)>& wrong,
                       bool with_state = true) {
  ServerSetup setup = setup_of({1000, 1000, 1'200'000});
  setup.rules[0].kind = kernels::Rule::Kind::momentum;
  setup.rules[0].momentum = 0.9;
  setup.with_state = with_state;
  std::string refusal;
  run_threads({1, 2, LinkKind::tcp}, [&](int, net::MemberGroup group) {
    RawMember worker(group);
    const auto shards = shards_of(setup, 2);
    for (int server = 0; server < 2; ++server) {
      const Range shard = shards[static_cast<std::size_t>(server)];
      worker.hello(group.member_of_server(server), setup, shard);
      worker.send(group.member_of_server(server), Initial{shard, {}}, shard.size() * sizeof(float));
    }
    wrong(worker, group.head(), shards[0]);
    refusal = worker.refusal();
    for (int server = 0; server < 2; ++server) worker.send(group.member_of_server(server), Leave{});
    worker.flush();
  });
  return refusal;
}

// A worker's learning rates come from outside too.
TEST(Commit, IsRefusedWithLearningRatesThatCannotBe) {
  const auto refused = [](const std::vector<double>& lr) {
    return refusal_of(
        [&](RawMember& worker, int server, Range shard) {
          worker.wait_for(Kind::welcome);
          worker.send(server, Piece{1, shard, {}}, shard.size() * sizeof(float));
          const auto bytes = std::as_bytes(std::span(lr));
          worker.say(server, Commit{1, {.samples = 1}}, {bytes.begin(), bytes.end()});
        },
        /*with_state=*/false);
  };
  EXPECT_THAT(refused({}), HasSubstr("push 1 has 0 bytes of learning rates, for 1 groups"));
  EXPECT_THAT(refused({0.1, 0.2}), HasSubstr("16 bytes of learning rates"));
  EXPECT_THAT(refused({-0.1}), HasSubstr("push 1 has a learning rate of -0.1"));
  EXPECT_THAT(refused({std::numeric_limits<double>::quiet_NaN()}), HasSubstr("rate of nan"));
}

constexpr std::size_t kCounts = 3 * sizeof(double);

TEST(State, IsRefusedWhereItIsNotWhatTheServerExpects) {
  const auto refused = [](std::uint32_t slot, auto range_of, std::size_t bytes) {
    return refusal_of([&](RawMember& worker, int server, Range shard) {
      worker.send(server, StateUpdates{0, shard}, kCounts);
      worker.send(server, State{0, slot, 0, range_of(shard)}, bytes);
    });
  };
  const auto first = [](Range shard) { return Range{shard.begin, shard.begin + 100}; };
  EXPECT_THAT(refused(0, first, 99 * 4), HasSubstr("elements 0 to 100 of slot 0 of its optimizer's "
                                                   "state in 396 bytes"));
  EXPECT_THAT(refused(1, first, 400), HasSubstr("elements 0 to 100 of slot 1"));
  EXPECT_THAT(refused(
                  0,
                  [](Range) {
                    return Range{10, 110};
                  },
                  400),
              HasSubstr("begins at element 0 of slot 0 of 1"));
  EXPECT_THAT(refused(
                  0,
                  [](Range) {
                    return Range{100, 10};
                  },
                  400),
              HasSubstr("elements 100 to 10"));
  EXPECT_THAT(refused(
                  0,
                  [](Range shard) {
                    return Range{shard.end, shard.end + 100};
                  },
                  400),
              HasSubstr("the shard ends at 601008"));
  EXPECT_THAT(refused(
                  0,
                  [](Range shard) {
                    return Range{0, shard.end + 16};
                  },
                  400),
              HasSubstr("the shard ends at 601008"));
  EXPECT_THAT(refused(
                  0, [](Range shard) { return shard; }, 601'008 * 4),
              HasSubstr("0 to 601008"))
      << "more than may go at once";
}

TEST(State, IsRefusedInAnotherOrder) {
  EXPECT_THAT(refusal_of([](RawMember& worker, int server, Range shard) {
                worker.send(server, State{0, 0, 0, {shard.begin, 100}}, 400);
              }),
              HasSubstr("before it says how often it was updated"));
  EXPECT_THAT(refusal_of([](RawMember& worker, int server, Range shard) {
                worker.send(server, StateUpdates{0, shard}, kCounts - 8);
              }),
              HasSubstr("it says in 16 bytes how often the tensors of elements 0 to 601008"));
  EXPECT_THAT(refusal_of([](RawMember& worker, int server, Range shard) {
                worker.send(server, StateUpdates{0, {shard.end, 2 * shard.end}}, kCounts);
              }),
              HasSubstr("this shard has 3 tensors, in elements 0 to 601008"));
  EXPECT_THAT(refusal_of([](RawMember& worker, int server, Range shard) {
                worker.send(server, StateUpdates{0, shard}, kCounts);
                worker.send(server, StateUpdates{0, shard}, kCounts);
              }),
              HasSubstr("it says twice"));
  EXPECT_THAT(refusal_of([](RawMember& worker, int server, Range shard) {
                worker.send(server, Initial{shard, {}}, shard.size() * sizeof(float));
              }),
              HasSubstr("they came before"));
  EXPECT_THAT(refusal_of([](RawMember& worker, int server, Range) {
                worker.send(server, AskStateUpdates{});
              }),
              HasSubstr("before all have begun"));
}

TEST(State, IsRefusedWhereItWasNotAnnounced) {
  EXPECT_THAT(refusal_of(
                  [](RawMember& worker, int server, Range shard) {
                    worker.send(server, StateUpdates{0, shard}, kCounts);
                  },
                  /*with_state=*/false),
              HasSubstr("all have begun"));
}

// Asked of servers that all have begun.
TEST(State, QuestionsThatMakeNoSenseAreRefused) {
  const auto refused = [](std::uint32_t slot, Range range, int times = 1) {
    return refusal_of(
        [&](RawMember& worker, int server, Range) {
          worker.wait_for(Kind::welcome);
          for (int i = 0; i < times; ++i) worker.send(server, AskState{slot, 0, range});
        },
        /*with_state=*/false);
  };
  EXPECT_THAT(refused(0, {700'000, 700'100}), HasSubstr("here are 0 to 601008 of 1 slots"));
  EXPECT_THAT(refused(0, {601'000, 601'009}), HasSubstr("it asks for elements 601000 to 601009"));
  EXPECT_THAT(refused(1, {0, 100}), HasSubstr("of slot 1"));
  EXPECT_THAT(refused(0, {100, 100}), HasSubstr("elements 100 to 100"));
  EXPECT_THAT(refused(0, {0, 601'008}), HasSubstr("at most 524288 go at a time"));
  EXPECT_THAT(refused(0, {0, 500'000}, 9),
              HasSubstr("more of the optimizer's state than it waits"));
}

// A server that answers what it was not asked is named, and nothing of it is taken.
TEST(State, AServerThatAnswersSomethingElseIsNamed) {
  const ServerSetup setup = [] {
    ServerSetup momentum = setup_of({1000});
    momentum.rules[0].kind = kernels::Rule::Kind::momentum;
    momentum.rules[0].momentum = 0.9;
    return momentum;
  }();
  const auto failure = [&](const std::function<void(RawMember&)>& answer) {
    std::string message;
    asup::testing::run_ranks(
        2, LinkKind::tcp,
        [&](Job& job) {
          const net::MemberGroup group = net::workers_and_servers(job);
          if (job.is_server()) {
            RawMember server(group);
            server.wait_for(Kind::hello);
            server.send(0, Welcome{});
            server.wait_for(Kind::ask_state_updates);
            answer(server);
            server.wait_for(Kind::leave);
            return;
          }
          Client client(group, setup, {}, kTimeout);
          client.begin(true);
          try {
            Copy(setup).fetch(client);
          } catch (const JobFailed& error) {
            message = error.what();
          }
        },
        1);
    return message;
  };
  const auto names_it = [](const char* what) {
    return AllOf(HasSubstr("server 0"), HasSubstr(what));
  };
  EXPECT_THAT(failure([](RawMember& server) {
                server.send(0, StateUpdates{0, {0, 1000}}, 16);
              }),
              names_it("sent 16 bytes of optimizer state that it was not asked for"));
  EXPECT_THAT(failure([](RawMember& server) {
                server.send(0, StateUpdates{0, {0, 999}}, 8);
              }),
              names_it("sent 8 bytes"));
  EXPECT_THAT(failure([](RawMember& server) {
                server.send(0, State{0, 0, 0, {0, 2}}, 8);
              }),
              names_it("sent 8 bytes"));
  EXPECT_THAT(failure([](RawMember& server) {
                server.send(0, StateUpdates{3, {0, 1000}}, 8);
                server.wait_for(Kind::ask_state);
                server.send(0, State{3, 0, 0, {0, 999}}, 3996);
              }),
              names_it("sent 3996 bytes"));
  EXPECT_THAT(failure([](RawMember& server) {
                server.send(0, StateUpdates{3, {0, 1000}}, 8);
                server.wait_for(Kind::ask_state);
                server.send(0, State{4, 0, 0, {0, 1000}}, 4000);
                server.wait_for(Kind::ask_state_updates);  // an update came between: all anew
                server.send(0, StateUpdates{4, {0, 1000}}, 16);
              }),
              names_it("sent 16 bytes"));
}

}  // namespace
}  // namespace asup::ps::testing
