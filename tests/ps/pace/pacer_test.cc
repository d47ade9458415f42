#include "asup/ps/pace/pacer.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <random>
#include <set>

#include "asup/base/error.h"

namespace asup::ps::pace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A pacer whose workers push as they are told, one sample each, B = number of workers without
// backup workers.
class Driven {
 public:
  Driven(const Options& options, int workers)
      : pacer(bounds_of(options, workers), options.shares(workers), options.stale_lr,
              options.non_finite),
        numbers_(static_cast<std::size_t>(workers)),
        versions_(static_cast<std::size_t>(workers)) {
    for (int worker = 0; worker < workers; ++worker) note(pacer.arrived(worker, 0));
  }

  Push push_of(int worker) {
    const auto index = static_cast<std::size_t>(worker);
    Push push;
    push.worker = worker;
    push.number = numbers_[index];
    push.version = versions_[index];
    push.samples = 1;
    return push;
  }
  Commands push(const Push& push, double now = 0) {
    ++numbers_[static_cast<std::size_t>(push.worker)];
    return note(pacer.pushed(push, now));
  }
  Commands push(int worker, double now = 0) { return push(push_of(worker), now); }
  Commands note(Commands commands) {
    for (const Command& command : commands) {
      if (const auto* update = std::get_if<Update>(&command)) version_ = update->version;
      if (const auto* go = std::get_if<Go>(&command))
        versions_[static_cast<std::size_t>(go->worker)] = version_;
    }
    return commands;
  }

  Pacer pacer;

 private:
  std::vector<std::uint64_t> numbers_, versions_;
  std::uint64_t version_ = 0;
};

// "u1(0 1 2) d3 g0 g1": updates with the workers of their parts, drops and goes.
std::string text(const Commands& commands) {
  std::vector<std::string> words;
  for (const Command& command : commands) {
    if (const auto* update = std::get_if<Update>(&command)) {
      std::vector<int> workers;
      for (const auto& part : update->parts) workers.push_back(part.worker);
      words.push_back(fmt::format("u{}({})", update->version, fmt::join(workers, " ")));
    } else if (const auto* drop = std::get_if<Drop>(&command)) {
      words.push_back(fmt::format("d{}", drop->worker));
    } else {
      words.push_back(fmt::format("g{}", std::get<Go>(command).worker));
    }
  }
  return fmt::format("{}", fmt::join(words, " "));
}

const Update& update_in(const Commands& commands) { return std::get<Update>(commands.front()); }

TEST(Pacer, BspUpdatesWhenAllHavePushedInTheOrderOfWorkers) {
  Driven driven({.kind = Kind::bsp}, 3);
  EXPECT_EQ(text(driven.push(2)), "");
  EXPECT_EQ(text(driven.push(0)), "");
  const Commands commands = driven.push(1);
  EXPECT_EQ(text(commands), "u1(0 1 2) g0 g1 g2");
  EXPECT_EQ(update_in(commands).gain, 1);  // exactly the synchronous step
  EXPECT_EQ(update_in(commands).samples, 3u);
  for (const auto& part : update_in(commands).parts) {
    EXPECT_DOUBLE_EQ(part.weight, 1.0 / 3);
    EXPECT_EQ(part.staleness, Staleness{});
  }
}

TEST(Pacer, BspWithBackupsTakesTheFirstAndDropsTheLate) {
  Driven driven({.kind = Kind::bsp, .backup = 1}, 4);
  EXPECT_EQ(text(driven.push(3)), "");
  EXPECT_EQ(text(driven.push(1)), "");
  const Commands commands = driven.push(0);
  EXPECT_EQ(text(commands), "u1(0 1 3) g0 g1 g3");
  EXPECT_EQ(update_in(commands).gain, 1);  // a whole step
  EXPECT_EQ(text(driven.push(2)), "d2 g2");
  EXPECT_EQ(text(driven.push(2)), "");  // now it is in time
  EXPECT_EQ(text(driven.push(0)), "");
  EXPECT_EQ(text(driven.push(1)), "u2(0 1 2) g0 g1 g2");
}

TEST(Pacer, WhoIsLateWithBackupsIsWaitedForAgainWhereNobodyElseWorks) {
  Driven driven({.kind = Kind::bsp, .backup = 1}, 4);
  for (const int worker : {0, 1, 2}) (void)driven.push(worker);
  (void)driven.note(driven.pacer.rests(2, 0));
  EXPECT_EQ(text(driven.push(0)), "");
  EXPECT_EQ(text(driven.push(1)), "");
  EXPECT_EQ(text(driven.push(3)), "d3 g3");
  EXPECT_EQ(text(driven.push(3)), "u2(0 1 3) g0 g1 g3");
}

TEST(Pacer, AspAppliesAndReleasesAtOnce) {
  Driven driven({.kind = Kind::asp}, 2);
  for (std::uint64_t version = 1; version < 5; ++version) {
    const Commands commands = driven.push(0);
    EXPECT_EQ(text(commands), fmt::format("u{}(0) g0", version));
    EXPECT_DOUBLE_EQ(update_in(commands).gain, 0.5);
  }
  const Commands commands = driven.push(1);
  EXPECT_EQ(text(commands), "u5(1) g1");
  EXPECT_EQ(update_in(commands).parts[0].staleness, (Staleness{4, 2}));
}

TEST(Pacer, SspHoldsWhoeverWouldLeaveTheSlowestTooFarBehind) {
  Driven driven({.kind = Kind::ssp, .staleness = 1}, 2);
  EXPECT_EQ(text(driven.push(0)), "u1(0) g0");  // one ahead: still allowed
  EXPECT_EQ(text(driven.push(0)), "u2(0)");     // held
  EXPECT_EQ(text(driven.push(1)), "u3(1) g0 g1");
  EXPECT_EQ(text(driven.push(0)), "u4(0)");  // it is one ahead as before
}

// With many workers a push is a small part of a step, and the clock counts it all the same.
TEST(Pacer, SspCountsEachWorkersOwnPushes) {
  Driven driven({.kind = Kind::ssp, .staleness = 4}, 8);
  for (int push = 0; push < 4; ++push) EXPECT_THAT(text(driven.push(5)), HasSubstr("g5"));
  EXPECT_EQ(text(driven.push(5)), "u5(5)");
  for (const int worker : {0, 1, 2, 3, 4, 6})
    EXPECT_THAT(text(driven.push(worker)), HasSubstr(")"));
  EXPECT_EQ(text(driven.push(7)), "u12(7) g5 g7");
}

TEST(Pacer, SspDoesNotWaitForOneThatRestsOrIsLost) {
  for (const bool is_lost : {false, true}) {
    Driven driven({.kind = Kind::ssp, .staleness = 0}, 3);
    EXPECT_EQ(text(driven.push(0)), "u1(0)");
    EXPECT_EQ(text(driven.push(1)), "u2(1)");
    EXPECT_EQ(text(driven.note(is_lost ? driven.pacer.left(2, 0) : driven.pacer.rests(2, 0))),
              "g0 g1");
  }
}

TEST(Pacer, WhoJoinsSspBeginsAtTheSlowestOnesClock) {
  Driven driven({.kind = Kind::ssp, .staleness = 1}, 3);
  (void)driven.note(driven.pacer.rests(2, 0));
  for (int push = 0; push < 6; ++push)
    for (const int worker : {0, 1}) (void)driven.push(worker);
  EXPECT_EQ(text(driven.push(0)), "u13(0) g0");
  EXPECT_EQ(text(driven.note(driven.pacer.arrived(2, 0))), "g2");  // at 6, as worker 1
  EXPECT_EQ(text(driven.push(1)), "u14(1) g1");
  EXPECT_EQ(text(driven.push(1)), "u15(1)");  // at 8: two ahead of worker 2
  EXPECT_EQ(text(driven.push(2)), "u16(2) g1 g2");
}

TEST(Pacer, WhereNobodyIsAtWorkAllClocksOfSspBeginAnew) {
  Driven driven({.kind = Kind::ssp, .staleness = 2}, 2);
  EXPECT_EQ(text(driven.push(0)), "u1(0) g0");
  EXPECT_EQ(text(driven.push(0)), "u2(0) g0");
  (void)driven.note(driven.pacer.rests(0, 0));
  (void)driven.note(driven.pacer.rests(1, 0));
  EXPECT_EQ(text(driven.note(driven.pacer.arrived(1, 0))), "g1");
  EXPECT_EQ(text(driven.note(driven.pacer.arrived(0, 0))), "g0");
  EXPECT_EQ(text(driven.push(0)), "u3(0) g0");
  EXPECT_EQ(text(driven.push(0)), "u4(0) g0");
  EXPECT_EQ(text(driven.push(0)), "u5(0)");
}

TEST(Pacer, SspOfNothingIsOnePushOfEachAtATime) {
  Driven driven({.kind = Kind::ssp, .staleness = 0}, 3);
  EXPECT_EQ(text(driven.push(1)), "u1(1)");
  EXPECT_EQ(text(driven.push(0)), "u2(0)");
  EXPECT_EQ(text(driven.push(2)), "u3(2) g0 g1 g2");
}

TEST(Pacer, SspLetsNobodyBeginFurtherAheadThanItsBound) {
  for (const int bound : {0, 1, 2, 4}) {
    const int workers = 4;
    Driven driven({.kind = Kind::ssp, .staleness = static_cast<double>(bound)}, workers);
    std::mt19937 random(7);
    std::vector<int> finished(workers);
    int furthest = 0;
    double worst = 0;
    for (int i = 0; i < 3000; ++i) {
      // Worker 3 is slow: it pushes when nobody else can, and sometimes anyhow.
      std::vector<int> ready;
      for (int worker = 0; worker < workers; ++worker)
        if (driven.pacer.works(worker)) ready.push_back(worker);
      ASSERT_FALSE(ready.empty());
      if (ready.size() > 1 && ready.back() == 3 && random() % 50 != 0) ready.pop_back();
      const int pushing = ready[random() % ready.size()];
      ++finished[static_cast<std::size_t>(pushing)];
      const int slowest = *std::min_element(finished.begin(), finished.end());
      for (const Command& command : driven.push(pushing)) {
        if (const auto* update = std::get_if<Update>(&command))
          worst = std::max(worst, update->parts[0].staleness.steps);
        else if (const auto* go = std::get_if<Go>(&command))
          furthest = std::max(furthest, finished[static_cast<std::size_t>(go->worker)] - slowest);
      }
    }
    EXPECT_EQ(furthest, bound);
    // While one is at a lease, each of the others ends at most 2 s + 1: from s behind it to s
    // ahead of it, and the one that it was at.
    EXPECT_LE(worst, (workers - 1) * (2 * bound + 1) / static_cast<double>(workers));
  }
}

TEST(Pacer, KAsyncTakesTheNextSoMany) {
  Driven driven({.kind = Kind::kasync, .gather = 2}, 3);
  EXPECT_EQ(text(driven.push(2)), "");
  EXPECT_EQ(text(driven.push(0)), "u1(0 2) g0 g2");
  EXPECT_EQ(text(driven.push(0)), "");
  EXPECT_EQ(text(driven.push(1)), "u2(0 1) g0 g1");
}

TEST(Pacer, NobodyWaitsForOneThatRestsOrLeaves) {
  Driven driven({.kind = Kind::bsp}, 3);
  EXPECT_EQ(text(driven.push(0)), "");
  EXPECT_EQ(text(driven.pacer.rests(1, 0)), "");
  EXPECT_EQ(text(driven.note(driven.pacer.left(2, 0))), "u1(0) g0");
  EXPECT_EQ(text(driven.push(0)), "u2(0) g0");
  EXPECT_EQ(text(driven.note(driven.pacer.arrived(1, 0))), "g1");
  EXPECT_EQ(text(driven.push(0)), "");
}

TEST(Pacer, WhatALostWorkerHadPushedIsDroppedAndRedone) {
  Driven driven({.kind = Kind::bsp}, 3);
  EXPECT_EQ(text(driven.push(0)), "");
  EXPECT_EQ(text(driven.push(1)), "");
  EXPECT_EQ(text(driven.note(driven.pacer.left(1, 0, 1))), "d1 g0");  // 0 has to do it
  EXPECT_EQ(text(driven.push(2)), "");
  const Commands commands = driven.push(0);
  EXPECT_EQ(text(commands), "u1(0 0 2) g0 g2");
}

TEST(Pacer, WhoIsLostAtWorkIsRedoneByWhoeverComesNext) {
  Driven driven({.kind = Kind::bsp}, 3);
  EXPECT_EQ(text(driven.pacer.left(2, 0, 1)), "");
  EXPECT_EQ(text(driven.push(1)), "g1");
  EXPECT_EQ(text(driven.push(0)), "");
  EXPECT_EQ(text(driven.push(1)), "u1(0 1 1) g0 g1");
}

TEST(Pacer, TheLastOneRedoesWhatIsLostBeforeTheUpdate) {
  Driven driven({.kind = Kind::bsp}, 2);
  EXPECT_EQ(text(driven.pacer.left(1, 0, 1)), "");
  EXPECT_EQ(text(driven.push(0)), "g0");
  EXPECT_EQ(text(driven.push(0)), "u1(0 0) g0");
}

TEST(Pacer, PushesThatAreNotFiniteAreSkippedButDoNotHoldOthersUp) {
  Driven driven({.kind = Kind::bsp}, 2);
  Push bad = driven.push_of(0);
  bad.non_finite = 3;
  EXPECT_EQ(text(driven.push(bad)), "d0");  // its worker waits for the others
  const Commands commands = driven.push(1);
  EXPECT_EQ(text(commands), "u1(1) g0 g1");
  EXPECT_DOUBLE_EQ(update_in(commands).gain, 0.5);

  bad = driven.push_of(0);
  bad.non_finite = 1;
  EXPECT_EQ(text(driven.push(bad)), "d0");
  bad = driven.push_of(1);
  bad.non_finite = 1;
  EXPECT_EQ(text(driven.push(bad)), "d1 g0 g1");  // nothing is left to apply
  EXPECT_EQ(driven.pacer.version(), 1u);
}

TEST(Pacer, PushesThatAreNotFiniteEndTheJobOrAreAppliedWhereThatIsAsked) {
  Driven fatal({.kind = Kind::asp, .non_finite = NonFinite::fatal}, 1);
  Push bad = fatal.push_of(0);
  bad.non_finite = 3;
  EXPECT_THROW(fatal.push(bad), JobFailed);

  Driven apply({.kind = Kind::asp, .non_finite = NonFinite::apply}, 1);
  EXPECT_EQ(text(apply.push(bad)), "u1(0) g0");
}

TEST(Pacer, StaleGradientsMoveLessWhereThatIsAsked) {
  Driven driven({.kind = Kind::asp, .stale_lr = true}, 2);
  EXPECT_DOUBLE_EQ(update_in(driven.push(0)).gain, 0.5);
  for (int i = 0; i < 7; ++i) driven.push(0);
  const Commands commands = driven.push(1);  // 8 pushes are 4 steps
  EXPECT_DOUBLE_EQ(update_in(commands).parts[0].staleness.steps, 4);
  EXPECT_DOUBLE_EQ(update_in(commands).gain, 0.125);
}

TEST(Pacer, PartsCountBySamples) {
  Driven driven({.kind = Kind::bsp}, 2);
  Push long_one = driven.push_of(0);
  long_one.samples = 3;
  driven.push(long_one);
  const Commands commands = driven.push(driven.push_of(1));
  const Update& update = update_in(commands);
  EXPECT_EQ(update.gain, 2);
  EXPECT_EQ(update.parts[0].weight, 0.75);
  EXPECT_EQ(update.parts[1].weight, 0.25);
}

Bounds patient(double patience) { return {.gather = kAll, .patience = patience}; }

TEST(Pacer, PatienceWaitsForThoseWhoComeSoonAndNotForTheOthers) {
  Driven driven({.kind = Kind::bsp}, 4);
  (void)driven.pacer.set(patient(1), 0);
  for (int worker = 0; worker < 3; ++worker) driven.pacer.expect(worker, 1, 1.1);
  driven.pacer.expect(3, 4, 4.4);
  EXPECT_EQ(text(driven.push(0, 0.9)), "");
  EXPECT_EQ(text(driven.push(2, 1.0)), "");
  EXPECT_EQ(text(driven.push(1, 1.05)), "u1(0 1 2) g0 g1 g2");
  for (int worker = 0; worker < 3; ++worker) driven.pacer.expect(worker, 2.05, 2.2);
  // The late one waits for the three: that costs little for each.
  EXPECT_EQ(text(driven.push(3, 1.5)), "");
  EXPECT_EQ(text(driven.push(0, 2)), "");
  EXPECT_EQ(text(driven.push(1, 2)), "");
  const Commands commands = driven.push(2, 2);
  EXPECT_EQ(text(commands), "u2(0 1 2 3) g0 g1 g2 g3");
  EXPECT_DOUBLE_EQ(update_in(commands).parts[3].staleness.steps, 0.75);
}

TEST(Pacer, AnOverdueWorkerIsNoLongerWaitedFor) {
  Driven driven({.kind = Kind::bsp}, 2);
  (void)driven.pacer.set(patient(1), 0);
  driven.pacer.expect(0, 1, 1.1);
  driven.pacer.expect(1, 1, 1.1);
  EXPECT_EQ(driven.pacer.wake(), std::nullopt);
  EXPECT_EQ(text(driven.push(0, 0.9)), "");
  EXPECT_EQ(driven.pacer.wake(), 1);
  EXPECT_EQ(text(driven.pacer.tick(1)), "");
  EXPECT_EQ(driven.pacer.wake(), 1.1);
  EXPECT_EQ(text(driven.pacer.tick(1.1)), "u1(0) g0");
  EXPECT_EQ(driven.pacer.wake(), std::nullopt);
}

TEST(Pacer, WhoIsLaterThanKeepIsDropped) {
  Driven driven({.kind = Kind::asp}, 2);
  (void)driven.pacer.set({.gather = 1, .keep = 1}, 0);
  driven.push(0);
  driven.push(0);
  EXPECT_EQ(text(driven.push(1)), "u3(1) g1");  // went before it was so: kept, however late
  driven.push(0);
  driven.push(0);
  EXPECT_EQ(text(driven.push(1)), "u6(1) g1");  // one step
  for (int i = 0; i < 3; ++i) driven.push(0);
  EXPECT_EQ(text(driven.push(1)), "d1 g1");
}

TEST(Pacer, WaitingIsWorthIt) {
  const auto is_worth = [](std::size_t here, std::vector<double> to_come, double patience) {
    return is_worth_waiting(here, 0, to_come, patience);
  };
  EXPECT_TRUE(is_worth(1, {0.9}, 1));
  EXPECT_FALSE(is_worth(3, {0.9}, 1));
  EXPECT_TRUE(is_worth(1, {2, 2, 2}, 1));  // 2 seconds for three
  EXPECT_TRUE(is_worth(1, {2.2, 2, 2.1}, 1));
  EXPECT_FALSE(is_worth(1, {4, 2, 3}, 1));
  EXPECT_FALSE(is_worth(1, {}, 1));
  EXPECT_FALSE(is_worth(1, {1}, 0));
}

TEST(Pacer, PushesThatMakeNoSenseAreRefused) {
  Driven driven({.kind = Kind::bsp}, 2);
  Push push = driven.push_of(0);
  EXPECT_EQ(driven.pacer.refusal(push), std::nullopt);
  push.number = 4;
  EXPECT_THAT(driven.pacer.refusal(push).value(), HasSubstr("push 0 is next"));
  push = driven.push_of(0);
  push.version = 9;
  EXPECT_THAT(driven.pacer.refusal(push).value(), HasSubstr("it was given version 0"));
  push = driven.push_of(0);
  push.samples = 0;
  EXPECT_THAT(driven.pacer.refusal(push).value(), HasSubstr("no samples"));
  push = driven.push_of(0);
  push.worker = 7;
  EXPECT_THAT(driven.pacer.refusal(push).value(), HasSubstr("was not at work"));
  EXPECT_THROW((void)driven.pacer.pushed(push, 0), Error);
  driven.push(0);
  EXPECT_THAT(driven.pacer.refusal(driven.push_of(0)).value(), HasSubstr("was not at work"));
}

// However workers push, rest, arrive and leave: versions rise by one, nobody goes twice, and there
// is always somebody at work as long as anybody could be.
TEST(Pacer, NobodyIsForgottenWhateverHappens) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const int workers = 1 + static_cast<int>(random() % 6);
    const auto any = [&](int most) {
      return static_cast<int>(random() % static_cast<unsigned>(most));
    };
    Bounds bounds{.gather = any(2) == 0 ? kAll : 1 + any(workers),
                  .spare = any(3) == 0 ? any(workers) : 0,
                  .staleness = any(2) == 0 ? any(4) : kForever,
                  .keep = any(2) == 0 ? any(4) : kForever,
                  .patience = any(2) == 0 ? 0.5 * any(4) : kForever};
    Pacer pacer(bounds, workers);
    std::map<int, std::uint64_t> numbers, versions;
    std::set<int> away, resting, working;
    std::uint64_t version = 0;
    double now = 0;
    const auto note = [&](const Commands& commands) {
      for (const Command& command : commands) {
        if (const auto* update = std::get_if<Update>(&command)) {
          ASSERT_EQ(update->version, ++version);
        } else if (const auto* go = std::get_if<Go>(&command)) {
          ASSERT_TRUE(working.insert(go->worker).second);
          versions[go->worker] = version;
          if (any(2) == 0) pacer.expect(go->worker, now + 1, now + 1.5);
        }
      }
    };
    for (int worker = 0; worker < workers; ++worker) away.insert(worker);
    for (int i = 0; i < 500; ++i) {
      now += 0.1 * any(10);
      const int worker = any(workers);
      if (away.erase(worker) + resting.erase(worker) > 0) {
        if (!numbers.contains(worker)) numbers[worker] = 0;
        note(pacer.arrived(worker, now));
      } else if (any(20) == 0) {
        working.erase(worker);
        numbers.erase(worker);
        away.insert(worker);
        note(pacer.left(worker, now));
      } else if (working.contains(worker) && any(10) == 0) {
        working.erase(worker);
        resting.insert(worker);
        note(pacer.rests(worker, now));
      } else if (working.erase(worker) > 0) {
        Push push;
        push.worker = worker;
        push.number = numbers[worker]++;
        push.version = versions[worker];
        push.samples = 1;
        push.non_finite = any(20) == 0 ? 1 : 0;
        note(pacer.pushed(push, now));
      } else {
        note(pacer.tick(now));
      }
      const std::size_t idle = away.size() + resting.size();
      ASSERT_TRUE(!working.empty() || idle == static_cast<std::size_t>(workers))
          << "seed " << seed << ": all are held";
    }
  }
}

// Without leases, pushes count by the samples that their workers describe; the clock counts pushes.
TEST(Described, PushesCountByTheirSamples) {
  Driven driven({.kind = Kind::bsp}, 3);
  const auto push = [&](int worker, std::uint64_t samples) {
    Push push = driven.push_of(worker);
    push.described = samples;
    return driven.push(push);
  };
  push(0, 6);
  push(1, 2);
  const Update whole = update_in(push(2, 0));
  EXPECT_EQ(whole.share, 1);
  EXPECT_EQ(whole.gain, 1);
  EXPECT_EQ(whole.samples, 3u);
  EXPECT_EQ(whole.parts[0].weight, 0.75);
  EXPECT_EQ(whole.parts[1].weight, 0.25);
  EXPECT_EQ(whole.parts[2].weight, 0);
  // An epoch's shorter last batches are a step too.
  push(0, 1);
  push(1, 1);
  EXPECT_EQ(update_in(push(2, 2)).share, 1);
  // Batches of nothing, on all.
  push(0, 0);
  push(1, 0);
  EXPECT_EQ(update_in(push(2, 0)).share, 1);
}

// One by one, each is its part of the last batches of all.
TEST(Described, PushesAloneAreTheirPartOfAStep) {
  Driven driven({.kind = Kind::asp}, 2);
  const auto push = [&](int worker, std::uint64_t samples) {
    Push push = driven.push_of(worker);
    push.described = samples;
    return update_in(driven.push(push));
  };
  EXPECT_EQ(push(0, 6).share, 0.5) << "of the other, nothing is known yet";
  EXPECT_EQ(push(1, 2).share, 0.25);
  const Update again = push(0, 6);
  EXPECT_EQ(again.share, 0.75);
  EXPECT_EQ(again.gain, 0.75);
}

}  // namespace
}  // namespace asup::ps::pace
