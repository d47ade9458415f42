#include "asup/bench/backward_course.h"

#include <gtest/gtest.h>

#include <ctime>

namespace asup::bench {
namespace {

// Uses up so much of this thread's processor time.
void compute(double seconds) {
  const auto used = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  };
  const double until = used() + seconds;
  while (used() < until) {
  }
}

TEST(BackwardCourse, GoesByElementsAtFirst) {
  BackwardCourse course({1, 3, 4});
  course.begin();
  EXPECT_DOUBLE_EQ(course.reach(2), 0.5);
  EXPECT_DOUBLE_EQ(course.reach(1), 0.875);
  EXPECT_DOUBLE_EQ(course.reach(0), 1);
  EXPECT_DOUBLE_EQ(course.reach(0), 1);  // a second time, by a graph in a graph
}

// A large matrix that is multiplied once has less work than a small one that is many times.
TEST(BackwardCourse, ThenByTheWorkBeforeEachGradient) {
  BackwardCourse course({1, 1000});
  for (int backward = 0; backward < 5; ++backward) {
    course.begin();
    compute(0.005);
    course.reach(1);
    compute(0.05);  // sends: no part of backward
    course.go_on();
    compute(0.015);
    course.reach(0);
    course.go_on();
  }
  course.begin();
  EXPECT_NEAR(course.reach(1), 0.25, 0.05);
  EXPECT_DOUBLE_EQ(course.reach(0), 1);
}

TEST(BackwardCourse, OnAnotherThreadNothingIsMeasured) {
  BackwardCourse course({1, 3});
  for (int backward = 0; backward < 3; ++backward) {
    course.begin();
    std::thread([&] {
      compute(0.01);
      course.reach(1);
      course.go_on();
      course.reach(0);
    }).join();
  }
  course.begin();
  EXPECT_DOUBLE_EQ(course.reach(1), 0.75);
}

}  // namespace
}  // namespace asup::bench
