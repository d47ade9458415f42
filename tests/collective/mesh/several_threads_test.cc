// Threads of one rank that make calls on communicators of their own at the same time: none waits
// for a call of another, whatever order other ranks make them in.
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "asup/collective/mesh/mesh_communicator.h"
#include "asup/net/transport/mesh.h"
#include "tests/support/ranks.h"

namespace asup {
namespace {

using net::LinkKind;

constexpr int kRepetitions = 100;
constexpr Seconds kLimit{20};  // of a call, which takes some microseconds

class SeveralThreads : public ::testing::TestWithParam<LinkKind> {
 protected:
  static void run_ranks(int ranks, const std::function<void(Job&)>& body) {
    asup::testing::run_ranks(ranks, GetParam(), body);
  }
  static std::unique_ptr<Communicator> make(Job& job) {
    return make_communicator(job, {.timeout = kLimit});
  }
};

void sum_ones(Communicator& communicator, std::size_t count) {
  std::vector<float> ones(count, 1.0F);
  communicator.all_reduce(buffer_of(std::span(ones))).or_throw();
  ASSERT_EQ(ones, std::vector<float>(count, static_cast<float>(communicator.size())));
}

std::future<void> in_a_thread(std::function<void()> body) {
  return std::async(std::launch::async, std::move(body));
}

// Rank 0 has begun the call that rank 1 makes last before it makes the others.
TEST_P(SeveralThreads, CallsOfOneDoNotWaitForThoseOfAnother) {
  run_ranks(2, [&](Job& job) {
    const auto a = make(job), b = make(job);
    for (int i = 0; i < kRepetitions; ++i) {
      const std::size_t count = i % 2 == 0 ? 10 : 20'000;
      const auto others = [&] {
        sum_ones(*b, count);
        sum_ones(*b, 10);
      };
      if (job.rank() == 0) {
        auto beside = in_a_thread(others);
        sum_ones(*a, count);
        beside.get();
      } else {
        others();
        sum_ones(*a, count);
      }
    }
  });
}

// The calls need memory of the mesh, and more of it each time.
TEST_P(SeveralThreads, CallsThatNeedMemoryDoNotWaitEither) {
  run_ranks(2, [&](Job& job) {
    const auto a = make(job), b = make(job);
    for (int i = 1; i <= kRepetitions; ++i) {
      const auto together = [&] {
        std::vector<float> one(static_cast<std::size_t>(100 * i), 1.0F), other(7, 2.0F);
        b->all_reduce_together({buffer_of(std::span(one)), buffer_of(std::span(other))}).or_throw();
        ASSERT_EQ(one.back(), 2.0F);
        ASSERT_EQ(other.back(), 4.0F);
      };
      if (job.rank() == 0) {
        auto beside = in_a_thread(together);
        sum_ones(*a, 10);
        beside.get();
      } else {
        together();
        sum_ones(*a, 10);
      }
    }
  });
}

TEST_P(SeveralThreads, AWaitForAStartedCallDoesNotHoldUpOthers) {
  run_ranks(2, [&](Job& job) {
    const auto a = make(job), b = make(job);
    for (int i = 0; i < kRepetitions; ++i) {
      if (job.rank() == 0) {
        std::vector<float> ones(10, 1.0F);
        Work work = a->start_all_reduce(buffer_of(std::span(ones)));
        auto beside = in_a_thread([&] { sum_ones(*b, 10); });
        work.wait().or_throw();
        beside.get();
        ASSERT_EQ(ones, std::vector<float>(10, 2.0F));
      } else {
        sum_ones(*b, 10);
        sum_ones(*a, 10);
      }
    }
  });
}

// Every rank has each communicator in a thread of its own, and each takes its own time.
TEST_P(SeveralThreads, ManyAtOnceEachGoOnByThemselves) {
  constexpr int kThreads = 3;
  run_ranks(3, [&](Job& job) {
    std::vector<std::unique_ptr<Communicator>> communicators;
    for (int t = 0; t < kThreads; ++t) communicators.push_back(make(job));
    std::vector<std::future<void>> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.push_back(in_a_thread([&, t] {
        Communicator& communicator = *communicators[static_cast<std::size_t>(t)];
        for (int i = 0; i < kRepetitions; ++i) {
          if ((i + job.rank()) % 16 == t)
            std::this_thread::sleep_for(std::chrono::microseconds(300));
          sum_ones(communicator, static_cast<std::size_t>(1 + 997 * ((i + t) % 5)));
        }
      }));
    for (auto& thread : threads) thread.get();
  });
}

TEST_P(SeveralThreads, TheLockIsForOthersWhileACallWaits) {
  run_ranks(2, [&](Job& job) {
    const auto a = make(job), b = make(job);
    for (int i = 0; i < kRepetitions; ++i) {
      if (job.rank() == 0) {
        auto beside = in_a_thread([&] {
          for (int times = 0; times < 20; ++times) {
            const net::MeshLock lock(job.mesh().loop());
            ASSERT_EQ(job.mesh().end_of(1), net::LinkEnd::open);
          }
          sum_ones(*b, 1);
        });
        sum_ones(*a, 10);
        beside.get();
      } else {
        sum_ones(*b, 1);
        sum_ones(*a, 10);
      }
    }
  });
}

// One that stands by for another is late on time.
TEST_P(SeveralThreads, ADeadlineHoldsWhileAnotherMovesTheMesh) {
  run_ranks(1, [&](Job& job) {
    net::Loop& loop = job.mesh().loop();
    const auto drive_for = [&](Seconds seconds) {
      const auto start = Clock::now();
      const net::MeshLock lock(loop);
      EXPECT_FALSE(loop.drive([] { return false; }, after(seconds)));
      return seconds_since(start);
    };
    auto short_one = std::async(std::launch::async, drive_for, Seconds(0.3));
    auto long_one = std::async(std::launch::async, drive_for, Seconds(1.5));
    EXPECT_LT(short_one.get(), 1.2);
    EXPECT_GE(long_one.get(), 1.5);
  });
}

INSTANTIATE_TEST_SUITE_P(Links, SeveralThreads,
                         ::testing::Values(LinkKind::inproc, LinkKind::shm, LinkKind::tcp),
                         [](const auto& info) { return asup::testing::name_of(info.param); });

}  // namespace
}  // namespace asup
