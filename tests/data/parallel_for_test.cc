#include "asup/data/parallel_for.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace asup::data {
namespace {

TEST(ParallelFor, DoesEachOnce) {
  for (const int threads : {1, 2, 4}) {
    ParallelFor parallel_for(threads);
    for (const std::size_t count : {0u, 1u, 3u, 100u}) {
      std::vector<std::atomic<int>> done(count);
      parallel_for(count, [&](std::size_t i) { ++done[i]; });
      for (const auto& each : done) EXPECT_EQ(each, 1);
    }
  }
}

TEST(ParallelFor, UsesSoManyThreads) {
  ParallelFor parallel_for(3);
  std::atomic<int> here{0};
  parallel_for(3, [&](std::size_t) {  // each waits for the others: one thread could not do them all
    ++here;
    while (here < 3) std::this_thread::yield();
  });
  EXPECT_EQ(here, 3);
}

TEST(ParallelFor, OfNoThreadsHasThoseOfTheMachine) {
  std::atomic<int> done{0};
  ParallelFor(0)(20, [&](std::size_t) { ++done; });
  EXPECT_EQ(done, 20);
}

TEST(ParallelFor, OfOneThreadStaysInTheCallers) {
  ParallelFor parallel_for(1);
  std::set<std::thread::id> seen;
  parallel_for(20, [&](std::size_t) { seen.insert(std::this_thread::get_id()); });
  EXPECT_EQ(seen, std::set{std::this_thread::get_id()});
}

TEST(ParallelFor, ServesManyCallers) {
  ParallelFor parallel_for(2);
  std::atomic<int> done{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t)
    callers.emplace_back([&] {
      for (int i = 0; i < 50; ++i) parallel_for(10, [&](std::size_t) { ++done; });
    });
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(done, 4 * 50 * 10);
}

TEST(ParallelFor, PassesAnExceptionOnAndGoesOnWorking) {
  ParallelFor parallel_for(2);
  EXPECT_THROW(parallel_for(100,
                            [](std::size_t i) {
                              if (i == 7) throw std::runtime_error("7");
                            }),
               std::runtime_error);
  std::atomic<int> done{0};
  parallel_for(10, [&](std::size_t) { ++done; });
  EXPECT_EQ(done, 10);
}

}  // namespace
}  // namespace asup::data
