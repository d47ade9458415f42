// Networks that are cut while ranks on several hosts are in step: two groups never both go on, all
// see in time who is gone, and a link that comes back costs a pause. Skipped where no hosts can be
// made of network namespaces.
#include <gmock/gmock.h>

#include <future>
#include <numeric>
#include <thread>

#include "asup/base/error.h"
#include "asup/collective/mesh/mesh_communicator.h"
#include "asup/net/membership/coordinator.h"
#include "tests/support/network_hosts.h"

namespace asup::collective {
namespace {

using ::testing::HasSubstr;
using testing::NetworkHosts;

constexpr Seconds kCallTimeout{300};
// All is over in some 15 s, and not when calls give up.
constexpr double kSoon = 60;

// Rank r is on host r.
struct Scenario {
  int ranks = 4;
  int coordinator = 0;    // its host
  std::size_t count = 1;  // floats of each sum
  std::function<void(const NetworkHosts&)> cut;
};

struct Fate {
  std::vector<int> left;  // with whom it went on; nobody: it ended
  std::string why;        // it ended
  std::string missed;     // what it was told first
  double seconds = 0;     // from the cut to the first step without the lost, or its end
};

class CutJob {
 public:
  explicit CutJob(const Scenario& scenario)
      : scenario_(scenario),
        hosts_(std::max(scenario.ranks, scenario.coordinator + 1)),
        fates_(static_cast<std::size_t>(scenario.ranks)) {
    options_.size = scenario.ranks;
    options_.key = net::random_key();
    options_.interface = "10.217.0.0/24";
    options_.links = net::LinkKind::tcp;  // ranks are threads here, which see one /proc/self
    options_.join_timeout = Seconds(60);
  }

  std::vector<Fate> run() {
    std::promise<std::string> address;
    std::promise<void> over;
    std::thread coordinator([&] {
      hosts_.enter(scenario_.coordinator);
      net::Coordinator keeper(
          {.listen = net::interface_address(hosts_.address(scenario_.coordinator)),
           .key = options_.key,
           .size = scenario_.ranks,
           .join_timeout = options_.join_timeout});
      address.set_value(keeper.address());
      over.get_future().wait();
    });
    options_.coordinator = address.get_future().get();
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < scenario_.ranks; ++rank)
      ranks.emplace_back([this, rank] { be_rank(rank); });
    while (begun_ + failed_ < scenario_.ranks)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    cut_at_ = Clock::now();
    scenario_.cut(hosts_);
    is_cut_ = true;
    for (std::thread& rank : ranks) rank.join();
    over.set_value();
    coordinator.join();
    return fates_;
  }

 private:
  void be_rank(int rank) {
    Fate& fate = fates_[static_cast<std::size_t>(rank)];
    try {
      hosts_.enter(rank);
      net::JoinOptions options = options_;
      options.rank = rank;
      Job job = Job::join(options);
      train(job, fate);
    } catch (const Error& error) {
      fate.why = error.what();
      ++failed_;
    }
    fate.seconds = seconds_since(cut_at_);
  }

  // Steps until the cut, and some after it, with those who are left.
  void train(Job& job, Fate& fate) {
    const auto communicator =
        make_communicator(job, {.timeout = kCallTimeout, .algorithm = "ring"});
    std::vector<int> left(static_cast<std::size_t>(job.size()));
    std::iota(left.begin(), left.end(), 0);
    for (int done = 0, after_cut = 0; after_cut < 5; ++done) {
      if (step(*communicator, fate)) {
        if (done == 3) ++begun_;
        after_cut += agrees_that_cut(*communicator) ? 1 : 0;
        continue;
      }
      communicator->rebuild(kCallTimeout).or_throw();
      std::vector<int> now = ranks_of(*communicator, job.rank());
      if (now.empty()) continue;  // another one was lost
      job.go_on_with(now, left);
      left = std::move(now);
    }
    fate.left = left;
    fate.seconds = seconds_since(cut_at_);
    (void)communicator->barrier();  // nobody leaves earlier
  }

  bool step(Communicator& communicator, Fate& fate) const {
    std::vector<float> gradients(scenario_.count, 1.0F);
    const Outcome outcome = communicator.all_reduce(buffer_of(std::span(gradients)));
    if (outcome.ok()) {
      EXPECT_EQ(gradients.back(), static_cast<float>(communicator.size()));
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    } else if (fate.missed.empty()) {
      fate.missed = outcome.message();
    }
    return outcome.ok();
  }

  bool agrees_that_cut(Communicator& communicator) const {
    std::int32_t cut = is_cut_ ? 1 : 0;
    return communicator.all_reduce(buffer_of(std::span(&cut, 1)), ReduceOp::min).ok() && cut > 0;
  }

  static std::vector<int> ranks_of(Communicator& communicator, std::int32_t own) {
    std::vector<std::int32_t> ranks(static_cast<std::size_t>(communicator.size()));
    const bool ok =
        communicator.all_gather(buffer_of(std::span(&own, 1)), buffer_of(std::span(ranks))).ok();
    return ok ? std::vector<int>(ranks.begin(), ranks.end()) : std::vector<int>();
  }

  const Scenario scenario_;
  const NetworkHosts hosts_;
  net::JoinOptions options_;
  std::vector<Fate> fates_;
  std::atomic<int> begun_ = 0, failed_ = 0;
  std::atomic<bool> is_cut_ = false;
  Clock::time_point cut_at_;
};

class CutNetwork : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      const NetworkHosts hosts(1);
    } catch (const BadInput& error) {
      GTEST_SKIP() << error.what();
    }
  }

  static std::future<std::vector<Fate>> start(const Scenario& scenario) {
    return std::async(std::launch::async, [scenario] { return CutJob(scenario).run(); });
  }

  static void expect_went_on(const std::vector<Fate>& fates, const std::vector<int>& left) {
    for (int rank = 0; rank < static_cast<int>(fates.size()); ++rank) {
      const Fate& fate = fates[static_cast<std::size_t>(rank)];
      const bool goes_on = std::ranges::count(left, rank) > 0;
      EXPECT_EQ(fate.left, goes_on ? left : std::vector<int>())
          << "rank " << rank << ": " << fate.why << "; " << fate.missed;
      EXPECT_EQ(fate.why.empty(), goes_on) << "rank " << rank << ": " << fate.why;
      EXPECT_LT(fate.seconds, kSoon) << "rank " << rank;
    }
  }
};

// Jobs of their own, side by side: they wait most of the time.
TEST_F(CutNetwork, AtMostOneGroupGoesOn) {
  const auto halves = [](const NetworkHosts& hosts) { hosts.cut_apart({0, 1}, {2, 3}); };
  const auto two = [](const NetworkHosts& hosts) { hosts.cut_apart({0}, {1}); };
  auto by_word = start({.cut = halves});
  auto word_from_elsewhere = start({.coordinator = 4, .cut = halves});
  auto by_majority = start({.cut = [](const NetworkHosts& hosts) {
    hosts.cut_apart({0}, {1, 2, 3});
  }});
  auto neither = start({.ranks = 2, .cut = two});
  expect_went_on(by_word.get(), {0, 1});
  expect_went_on(word_from_elsewhere.get(), {0, 1});
  expect_went_on(by_majority.get(), {1, 2, 3});
  expect_went_on(neither.get(), {0});
}

TEST_F(CutNetwork, OneLinkIsForTheCoordinatorToJudge) {
  auto both_ways = start({.cut = [](const NetworkHosts& hosts) { hosts.cut_apart({1}, {2}); }});
  auto one_way = start({.cut = [](const NetworkHosts& hosts) { hosts.cut(1, 2); }});
  for (auto* each : {&both_ways, &one_way}) {
    const auto fates = each->get();
    expect_went_on(fates, {0, 1, 3});
    EXPECT_THAT(fates[2].why, HasSubstr("the others go on without rank 2"));
  }
}

// By figures of a machine that does little else.
TEST_F(CutNetwork, SoakAHostThatVanishesIsMissedInTime) {
  const auto vanish = [](const NetworkHosts& hosts) { hosts.set_up(2, false); };
  for (const std::size_t count : {1, 1 << 18, 1 << 20}) {
    const auto fates = start({.ranks = 3, .count = count, .cut = vanish}).get();
    expect_went_on(fates, {0, 1});
    for (int rank = 0; rank < 3; ++rank) {
      const Fate& fate = fates[static_cast<std::size_t>(rank)];
      fmt::print("{} floats, rank {}: {:.1f} s, {}\n", count, rank, fate.seconds,
                 fate.why.empty() ? fate.missed : fate.why);
      EXPECT_LT(fate.seconds, 15) << "rank " << rank;
    }
  }
}

// A host that vanishes is missed by all, also where much is on its way to it; a pause is not.
TEST_F(CutNetwork, AHostThatVanishesIsMissedAndOneThatPausesIsNot) {
  const auto vanish = [](const NetworkHosts& hosts) { hosts.set_up(2, false); };
  auto small = start({.ranks = 3, .cut = vanish});
  auto large = start({.ranks = 3, .count = 1 << 20, .cut = vanish});
  auto pause = start({.ranks = 3, .count = 1 << 18, .cut = [](const NetworkHosts& hosts) {
                        hosts.set_up(2, false);
                        std::this_thread::sleep_for(std::chrono::seconds(8));
                        hosts.set_up(2, true);
                      }});
  for (auto* each : {&small, &large}) {
    const auto fates = each->get();
    expect_went_on(fates, {0, 1});
    EXPECT_THAT(fates[0].missed, HasSubstr("rank 2"));
  }
  const auto fates = pause.get();
  expect_went_on(fates, {0, 1, 2});
  for (const Fate& fate : fates) EXPECT_EQ(fate.missed, "");
}

}  // namespace
}  // namespace asup::collective
