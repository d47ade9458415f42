#include "asup/ps/pace/scheduler.h"

#include <gmock/gmock.h>

#include <random>

#include "asup/base/error.h"
#include "tests/ps/pace/cluster.h"

namespace asup::ps::pace {
namespace {

using ::testing::HasSubstr;

SchedulerOptions job(Kind kind, int workers, std::uint64_t steps, std::uint64_t batch) {
  SchedulerOptions options;
  options.workers = workers;
  options.pace.kind = kind;
  Workload work;
  work.steps = steps;
  work.batch = batch;
  work.steps_per_epoch = steps;
  options.work = work;
  return options;
}

double equal(int, double length, double) { return length; }
double one_slow(int worker, double length, double) { return length * (worker == 0 ? 4 : 1); }

const std::vector<Kind> kKinds = {Kind::bsp, Kind::ssp, Kind::asp, Kind::kasync, Kind::adaptive};

// Every sample of every step once.
void expect_all_once(const Cluster& cluster, std::uint64_t steps, std::uint64_t batch) {
  ASSERT_EQ(cluster.applied().size(), steps);
  for (const auto& [step, counts] : cluster.applied()) {
    ASSERT_EQ(counts.size(), batch) << "step " << step;
    for (const int count : counts) ASSERT_EQ(count, 1) << "step " << step;
  }
}

TEST(Scheduler, NothingBeginsBeforeAllHaveArrived) {
  Scheduler head(job(Kind::asp, 3, 10, 6));
  EXPECT_TRUE(head.arrived(1, 0).empty());
  EXPECT_TRUE(head.arrived(0, 0).empty());
  const Decisions decisions = head.arrived(2, 0);
  ASSERT_EQ(decisions.size(), 3u);
  for (int worker = 0; worker < 3; ++worker) {
    const auto& release = std::get<Clearance>(decisions[static_cast<std::size_t>(worker)]);
    EXPECT_EQ(release.worker, worker);
    EXPECT_EQ(release.lease->begin, static_cast<std::uint64_t>(2 * worker));
  }
}

TEST(Scheduler, OneThatLeavesBeforeItArrivesIsNotWaitedFor) {
  Scheduler head(job(Kind::bsp, 2, 10, 6));
  EXPECT_TRUE(head.arrived(1, 0).empty());
  const Decisions decisions = head.left(0, 1);
  ASSERT_EQ(decisions.size(), 1u);
  EXPECT_EQ(std::get<Clearance>(decisions[0]).lease, (Lease{0, 0, 6}));
}

TEST(Scheduler, AllIsAppliedOnceInEveryPace) {
  for (const Kind kind : kKinds)
    for (const auto& scene : {equal, one_slow}) {
      SchedulerOptions options = job(kind, 4, 20, 30);
      options.pace.gather = 2;
      options.work->sync_points = {7, 20};
      Cluster cluster(options, scene);
      cluster.run();
      EXPECT_EQ(cluster.ended(), 4u) << name_of(kind);
      EXPECT_EQ(cluster.sync_points(), 2u);
      EXPECT_TRUE(cluster.head().has_ended());
      expect_all_once(cluster, 20, 30);
      EXPECT_NEAR(cluster.lr_moved(), 20, 1e-9);  // as far as 20 synchronous steps
      EXPECT_EQ(cluster.head().report().samples, 600u);
    }
}

TEST(Scheduler, ShortLastStepsAndFewSamplesAreNoTrouble) {
  for (const Kind kind : kKinds) {
    SchedulerOptions options = job(kind, 4, 6, 5);
    options.work->steps_per_epoch = 3;
    options.work->last_batch = 2;
    options.work->sync_points = {3, 6};
    Cluster cluster(options, one_slow);
    double steps = 0;
    cluster.on_decision = [&](const Decision& decision) {
      const auto* update = std::get_if<Update>(&decision);
      if (update == nullptr) return;
      steps += update->share;
      if (kind == Kind::bsp) {
        EXPECT_EQ(update->share, 1) << "whole, to the bit, also the short one";
      }
    };
    cluster.run();
    EXPECT_EQ(cluster.ended(), 4u) << name_of(kind);
    EXPECT_EQ(cluster.samples_applied(), 24u);
    EXPECT_NEAR(steps, 6, 1e-9) << name_of(kind);
  }
}

TEST(Scheduler, BspIsTheSynchronousStep) {
  Cluster cluster(job(Kind::bsp, 3, 5, 7), one_slow);
  std::vector<Update> updates;
  cluster.on_decision = [&](const Decision& decision) {
    if (const auto* update = std::get_if<Update>(&decision)) updates.push_back(*update);
  };
  cluster.run();
  ASSERT_EQ(updates.size(), 5u);
  for (const Update& update : updates) {
    EXPECT_EQ(update.gain, 1);
    ASSERT_EQ(update.parts.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(update.parts[i].worker, static_cast<int>(i));
      EXPECT_EQ(update.parts[i].weight, (i == 0 ? 3 : 2) / 7.0);
    }
  }
}

// As Ho et al. (2013) have it: in the long run all go as fast as the slowest.
TEST(Scheduler, SspHoldsFastWorkersBackByASlowOne) {
  SchedulerOptions options = job(Kind::ssp, 4, 1000, 40);
  options.pace.staleness = 4;
  Cluster cluster(options, one_slow);
  cluster.run(80);  // 20 leases of the slow one
  const PaceReport report = cluster.head().report();
  EXPECT_EQ(report.workers[0].pushes, 20u);
  for (const int worker : {1, 2, 3})
    EXPECT_EQ(report.workers[static_cast<std::size_t>(worker)].pushes, 24u);
}

// Chen et al. (2016): each step is of a whole batch, of the first that come. What the late did is
// done again, so that all samples count once.
TEST(Scheduler, BackupsKeepBspFastAndItsStepsWhole) {
  SchedulerOptions options = job(Kind::bsp, 4, 40, 42);
  options.pace.backup = 1;
  options.work->sync_points = {40};
  Cluster cluster(options, one_slow);
  cluster.on_decision = [&](const Decision& decision) {
    const auto* update = std::get_if<Update>(&decision);
    if (update == nullptr) return;
    EXPECT_EQ(update->gain, 1);
    ASSERT_EQ(update->parts.size(), 3u);
    for (const auto& part : update->parts) EXPECT_EQ(part.weight, 1 / 3.0);
  };
  cluster.run();
  EXPECT_EQ(cluster.ended(), 4u);
  expect_all_once(cluster, 40, 42);
  const PaceReport report = cluster.head().report();
  EXPECT_EQ(report.updates, 40u);
  EXPECT_EQ(report.mean_staleness, 0);
  EXPECT_GT(report.workers[0].dropped_late, 5u);
  EXPECT_EQ(report.samples, 1680u);
  EXPECT_EQ(report.samples_dropped, 0u);
  EXPECT_LT(cluster.now(), 65);  // a lease takes 4/3; 160 without backups
}

TEST(Scheduler, WithoutLeasesAStepOfBackupsIsWholeToo) {
  SchedulerOptions options = job(Kind::bsp, 4, 1, 1);
  options.work.reset();
  options.pace.backup = 1;
  Cluster cluster(options, one_slow);
  cluster.on_decision = [&](const Decision& decision) {
    const auto* update = std::get_if<Update>(&decision);
    EXPECT_EQ(update ? update->gain : 1, 1);
  };
  cluster.run(20);
  EXPECT_EQ(cluster.head().report().updates, 20u);
}

TEST(Scheduler, AResumedJobStartsAtItsStepAndVersion) {
  SchedulerOptions options = job(Kind::bsp, 2, 10, 4);
  options.work->first_step = 7;
  options.work->sync_points = {7, 10};
  options.version = 7;
  Cluster cluster(options, equal);
  cluster.run();
  EXPECT_EQ(cluster.applied().begin()->first, 7u);
  EXPECT_EQ(cluster.samples_applied(), 12u);
  EXPECT_EQ(cluster.head().version(), 10u);
  EXPECT_EQ(cluster.sync_points(), 1u);

  options.work->first_step = 10;  // all is done already
  options.work->sync_points = {10};
  Cluster done(options, equal);
  done.run();
  EXPECT_EQ(done.ended(), 2u);
}

TEST(Scheduler, WithoutLeasesAPushCountsAsItsShareOfAStep) {
  for (const Kind kind : kKinds) {
    SchedulerOptions options = job(kind, 4, 1, 1);
    options.work.reset();
    options.pace.gather = 2;
    Cluster cluster(options, one_slow);
    cluster.run(20);
    const PaceReport report = cluster.head().report();
    EXPECT_GT(report.updates, 3u) << name_of(kind);
    EXPECT_NEAR(cluster.lr_moved(), static_cast<double>(report.samples) / 4, 1e-9);
    EXPECT_EQ(cluster.ended(), 0u);
  }
}

TEST(Scheduler, ALostWorkersLeaseIsDoneByAnother) {
  for (const Kind kind : kKinds)
    for (const double when : {0.5, 1.0, 1.5, 6.2}) {
      SchedulerOptions options = job(kind, 4, 20, 30);
      options.work->sync_points = {7, 20};
      options.pace.gather = 3;
      Cluster cluster(options, one_slow);
      cluster.on_decision = [&](const Decision& decision) {
        const auto* update = std::get_if<Update>(&decision);
        // A synchronous step stays whole.
        if (update != nullptr && kind == Kind::bsp) {
          EXPECT_EQ(update->samples, 30u);
        }
      };
      cluster.at(when, [](Cluster& all) { all.lose(2); });
      cluster.at(when + 2.3, [](Cluster& all) { all.lose(0); });
      cluster.at(when + 4.4, [](Cluster& all) { all.join(2); });
      cluster.run();
      EXPECT_EQ(cluster.ended(), 3u) << name_of(kind) << " lost at " << when;
      expect_all_once(cluster, 20, 30);
    }
}

TEST(Scheduler, WhenAllAreLostANewOneFinishes) {
  for (const Kind kind : kKinds) {
    SchedulerOptions options = job(kind, 2, 6, 4);
    options.work->sync_points = {3, 6};
    Cluster cluster(options, equal);
    cluster.at(1.25, [](Cluster& all) { all.lose(0); });
    cluster.at(1.26, [](Cluster& all) { all.lose(1); });
    cluster.at(2, [](Cluster& all) { all.join(1); });
    cluster.run();
    EXPECT_EQ(cluster.ended(), 1u) << name_of(kind);
    expect_all_once(cluster, 6, 4);
  }
}

TEST(Scheduler, OneThatIsLostAtASyncPointDoesNotHoldIt) {
  SchedulerOptions options = job(Kind::asp, 2, 4, 4);
  options.work->sync_points = {2, 4};
  Scheduler head(options);
  const auto push = [&](int worker, std::uint64_t number, std::uint64_t version) {
    Push one;
    one.worker = worker;
    one.number = number;
    one.version = version;
    one.samples = 2;
    return head.pushed(one, 1);
  };
  head.arrived(0, 0);
  head.arrived(1, 0);
  push(0, 0, 0);
  push(1, 0, 0);
  push(0, 1, 1);
  const Decisions decisions = push(1, 1, 2);
  ASSERT_EQ(decisions.size(), 3u);
  for (const std::size_t i : {1u, 2u}) {
    const auto& release = std::get<Clearance>(decisions[i]);
    EXPECT_EQ(release.to, Clearance::To::sync_point);
    EXPECT_EQ(release.sync_point, 2u);
    EXPECT_EQ(release.version, 4u);
  }
  EXPECT_TRUE(head.is_at_sync_point());
  EXPECT_TRUE(head.passed_sync_point(0, {0, 1}, 2).empty());
  EXPECT_THROW(head.passed_sync_point(0, {0, 1}, 2), Error);
  // Worker 1 may not have ended the sync point: worker 0 is to end it without it.
  const Decisions again = head.left(1, 3);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(std::get<Clearance>(again[0]).to, Clearance::To::sync_point);
  EXPECT_EQ(std::get<Clearance>(again[0]).sync_point, 2u);
  EXPECT_TRUE(head.is_at_sync_point());
  const Decisions after = head.passed_sync_point(0, {0}, 4);
  EXPECT_FALSE(head.is_at_sync_point());
  ASSERT_EQ(after.size(), 1u);
  EXPECT_EQ(std::get<Clearance>(after[0]).to, Clearance::To::work);
  EXPECT_EQ(std::get<Clearance>(after[0]).lease->step, 2u);
}

// Three workers at a sync point.
struct AtSyncPoint {
  AtSyncPoint() : head(options()) {
    for (int worker = 0; worker < 3; ++worker) head.arrived(worker, 0);
    for (int worker = 0; worker < 3; ++worker) {
      Push push;
      push.worker = worker;
      push.samples = 2;
      last = head.pushed(push, 1);
    }
  }
  static SchedulerOptions options() {
    SchedulerOptions options = job(Kind::asp, 3, 4, 6);
    options.work->sync_points = {1, 4};
    return options;
  }
  static std::vector<int> sent(const Decisions& decisions) {
    std::vector<int> workers;
    for (const Decision& decision : decisions)
      if (const auto* release = std::get_if<Clearance>(&decision);
          release != nullptr && release->to == Clearance::To::sync_point)
        workers.push_back(release->worker);
    return workers;
  }

  Scheduler head;
  Decisions last;
};

// Worker 0 has ended it before worker 2 died, worker 1 has not and waits for worker 0.
TEST(Scheduler, WhoMetOneThatIsLostMeetsTheOthersAgain) {
  AtSyncPoint at;
  ASSERT_EQ(AtSyncPoint::sent(at.last), (std::vector{0, 1, 2}));
  EXPECT_TRUE(at.head.passed_sync_point(0, {0, 1, 2}, 2).empty());
  EXPECT_EQ(AtSyncPoint::sent(at.head.left(2, 3)), std::vector{0});
  EXPECT_TRUE(at.head.passed_sync_point(1, {0, 1}, 4).empty());
  const Decisions after = at.head.passed_sync_point(0, {0, 1}, 4);
  EXPECT_EQ(AtSyncPoint::sent(after), std::vector<int>{});
  EXPECT_EQ(after.size(), 2u);  // leases
  EXPECT_FALSE(at.head.is_at_sync_point());
}

// The loss is heard of by the others first.
TEST(Scheduler, ASyncPointIsNotPassedBeforeTheHeadHearsOfTheLoss) {
  AtSyncPoint at;
  EXPECT_TRUE(at.head.passed_sync_point(0, {0, 1}, 2).empty());
  EXPECT_TRUE(at.head.passed_sync_point(1, {0, 1}, 2).empty());
  EXPECT_TRUE(at.head.is_at_sync_point());
  EXPECT_EQ(at.head.left(2, 3).size(), 2u);
  EXPECT_FALSE(at.head.is_at_sync_point());
}

// Worker 2 thinks that it has met all; the others went on without it.
TEST(Scheduler, WhereNotAllMetAllTheyAllMeetAgain) {
  AtSyncPoint at;
  EXPECT_TRUE(at.head.passed_sync_point(0, {0, 1}, 2).empty());
  EXPECT_TRUE(at.head.passed_sync_point(2, {0, 1, 2}, 2).empty());
  EXPECT_EQ(AtSyncPoint::sent(at.head.passed_sync_point(1, {0, 1}, 2)), (std::vector{0, 1, 2}));
  EXPECT_TRUE(at.head.passed_sync_point(0, {0, 1}, 3).empty());
  EXPECT_TRUE(at.head.passed_sync_point(1, {0, 1}, 3).empty());
  EXPECT_EQ(at.head.left(2, 4).size(), 2u);
}

TEST(Scheduler, PushesThatMakeNoSenseAreRefused) {
  Scheduler head(job(Kind::bsp, 2, 4, 4));
  head.arrived(0, 0);
  head.arrived(1, 0);
  Push push;
  push.samples = 3;
  EXPECT_THAT(head.refusal(push).value(), HasSubstr("its lease has 2"));
  EXPECT_THROW(head.pushed(push, 1), Error);
  EXPECT_THROW(head.arrived(0, 0), Error);
  EXPECT_THROW(head.arrived(2, 0), Error);
}

TEST(Scheduler, TheReportAddsUp) {
  SchedulerOptions options = job(Kind::asp, 4, 50, 40);
  Cluster cluster(options, one_slow);
  cluster.on_push = [](Push& push) {
    push.seconds_working = 2;
    push.seconds_waiting = 0.5;
    if (push.worker == 1 && push.number % 10 == 3) push.non_finite = 1;
  };
  cluster.run();
  const PaceReport report = cluster.head().report();
  std::uint64_t pushes = 0, applied = 0;
  for (const WorkerFigures& worker : report.workers) {
    pushes += worker.pushes;
    applied += worker.applied;
    EXPECT_DOUBLE_EQ(worker.seconds_working, 2.0 * static_cast<double>(worker.pushes));
    EXPECT_DOUBLE_EQ(worker.seconds_waiting, 0.5 * static_cast<double>(worker.pushes));
  }
  EXPECT_EQ(report.updates, applied);
  EXPECT_EQ(pushes, applied + report.non_finite_pushes);
  EXPECT_GT(report.non_finite_pushes, 3u);
  EXPECT_EQ(report.samples + report.samples_dropped, 2000u);
  EXPECT_GE(report.worst_staleness, 11u);  // the slow one's
  EXPECT_GT(report.workers[0].mean_staleness, 3 * report.workers[1].mean_staleness);
  EXPECT_NEAR(report.mean_staleness_steps, 0.74, 0.03);
  EXPECT_GT(report.workers[1].pushes, 3 * report.workers[0].pushes);
}

// Workers that pause, leave, come back and push rubbish, in any pace: the work ends, and every
// sample is applied once, or was dropped and is counted.
TEST(Scheduler, TheWorkIsDoneWhateverHappens) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    const auto any = [&](int most) {
      return static_cast<int>(random() % static_cast<unsigned>(most));
    };
    const int workers = 1 + any(6);
    SchedulerOptions options =
        job(kKinds[seed % kKinds.size()], workers, static_cast<std::uint64_t>(1 + any(30)),
            static_cast<std::uint64_t>(1 + any(40)));
    Workload& work = *options.work;
    work.steps_per_epoch = static_cast<std::uint64_t>(1 + any(8));
    work.last_batch = static_cast<std::uint64_t>(any(static_cast<int>(work.batch) + 1));
    work.first_step = any(3) == 0 ? random() % work.steps : 0;
    for (std::uint64_t sync_point = 1; sync_point <= work.steps; ++sync_point)
      if (any(6) == 0) work.sync_points.push_back(sync_point);
    options.pace.staleness = any(5);
    options.pace.gather = 1 + any(workers);
    if (options.pace.kind == Kind::bsp) options.pace.backup = any(2) == 0 ? any(workers) : 0;
    const bool is_rubbish = any(3) == 0;
    std::vector<double> slow;
    for (int worker = 0; worker < workers; ++worker) slow.push_back(any(3) == 0 ? 1 + any(8) : 1);

    Cluster cluster(options, [&](int worker, double length, double) {
      const double pause = any(20) == 0 ? any(10) : 0;
      return length * slow[static_cast<std::size_t>(worker)] * (1 + 0.01 * any(10)) + pause + 0.001;
    });
    bool dropped = false, alone = false;
    cluster.on_push = [&](Push& push) { push.non_finite = is_rubbish && any(10) == 0 ? 1 : 0; };
    cluster.on_decision = [&](const Decision& decision) {
      if (const auto* drop = std::get_if<Drop>(&decision)) dropped |= drop->why != Drop::Why::lost;
      if (const auto* release = std::get_if<Clearance>(&decision); release && release->lease)
        alone |= release->lease->samples() == 1;
    };
    for (int worker = 1; worker < workers; ++worker) {
      if (any(3) != 0) continue;
      const double when = any(20) + 0.5;
      cluster.at(when, [worker](Cluster& all) { all.lose(worker); });
      if (any(2) == 0) cluster.at(when + any(5), [worker](Cluster& all) { all.join(worker); });
    }
    cluster.run(100000);
    ASSERT_TRUE(cluster.head().has_ended())
        << "seed " << seed << ", pace " << name_of(options.pace.kind) << ": stuck at step "
        << cluster.head().step() << " of " << work.steps;
    const PaceReport report = cluster.head().report();
    std::uint64_t total = 0;
    for (std::uint64_t step = work.first_step; step < work.steps; ++step) {
      const bool is_last = step % work.steps_per_epoch == work.steps_per_epoch - 1;
      total += is_last && work.last_batch > 0 ? work.last_batch : work.batch;
    }
    ASSERT_EQ(report.samples + report.samples_dropped, total) << "seed " << seed;
    for (const auto& [step, counts] : cluster.applied())
      for (const int count : counts) ASSERT_LE(count, 1) << "seed " << seed << " step " << step;
    if (!dropped) {
      ASSERT_EQ(report.samples, total) << "seed " << seed;
    }
    // Two samples have statistics; one alone has none.
    const auto shares = static_cast<std::uint64_t>(options.pace.shares(workers));
    if (work.batch >= 2 * shares && work.last_batch != 1) {
      ASSERT_FALSE(alone) << "seed " << seed;
    }
  }
}

TEST(Scheduler, TheSameEventsGiveTheSameDecisions) {
  const auto run = [] {
    SchedulerOptions options = job(Kind::adaptive, 4, 60, 64);
    std::mt19937 random(3);
    Cluster cluster(options, [random](int worker, double length, double) mutable {
      return length * (worker == 1 ? 3 : 1) * (1 + 0.0001 * static_cast<double>(random() % 1000));
    });
    std::vector<Decision> all;
    cluster.on_decision = [&](const Decision& decision) { all.push_back(decision); };
    cluster.run();
    return all;
  };
  EXPECT_EQ(run(), run());
}

}  // namespace
}  // namespace asup::ps::pace
