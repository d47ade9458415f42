#include "asup/pairwise/attendance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>

#include "asup/base/error.h"
#include "tests/support/ranks.h"

namespace asup::pairwise::testing {
namespace {

using net::LinkKind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Seconds kTimeout{60};
const std::vector<int> kBoth{0, 1}, kAll{0, 1, 2};

class AttendanceOnEveryLink : public ::testing::TestWithParam<LinkKind> {};

TEST_P(AttendanceOnEveryLink, WhoComesInTimeMeets) {
  asup::testing::run_ranks(3, GetParam(), [&](Job& job) {
    Attendance attendance(circle_of(job));
    for (std::uint64_t number = 1; number < 20; ++number) {
      const auto meeting = attendance.come(number, kAll, Seconds(0), kTimeout);
      EXPECT_EQ(meeting.number, number);
      EXPECT_THAT(meeting.workers, ElementsAre(0, 1, 2));
    }
  });
}

// It comes to its first meeting when the others have held three.
TEST_P(AttendanceOnEveryLink, WhoIsLateComesToTheNextMeeting) {
  std::barrier three_were_held(2);
  asup::testing::run_ranks(2, GetParam(), [&](Job& job) {
    Attendance attendance(circle_of(job));
    std::uint64_t number = 1;
    if (job.rank() == 1) {
      three_were_held.arrive_and_wait();
      const auto missed = attendance.come(number, kBoth, Seconds(0), kTimeout);
      EXPECT_THAT(missed.workers, IsEmpty());
      EXPECT_LE(missed.number, 3u);  // or fewer, where it has not heard of all yet
      number = missed.number + 1;
      while (number < 4) {
        const auto next = attendance.come(number, kBoth, Seconds(0), kTimeout);
        EXPECT_THAT(next.workers, IsEmpty());
        number = next.number + 1;
      }
    } else {
      for (; number < 4; ++number)
        EXPECT_THAT(attendance.come(number, kBoth, Seconds(0.02), kTimeout).workers,
                    ElementsAre(0));
      three_were_held.arrive_and_wait();
    }
    EXPECT_EQ(number, 4u);
    const auto meeting = attendance.come(number, kBoth, Seconds(0), kTimeout);
    EXPECT_EQ(meeting.number, 4u);
    EXPECT_THAT(meeting.workers, ElementsAre(0, 1));
  });
}

TEST_P(AttendanceOnEveryLink, WhereOneIsGoneNobodyWaits) {
  asup::testing::run_ranks(3, GetParam(), [&](Job& job) {
    Attendance attendance(circle_of(job));
    if (job.rank() == 0) return;
    EXPECT_THAT(attendance.come(1, kAll, Seconds(0), kTimeout).workers, ElementsAre(0, 1, 2));
    const auto meeting = attendance.come(2, {1, 2}, Seconds(0), kTimeout);
    EXPECT_THAT(meeting.workers, ElementsAre(1, 2));
  });
}

TEST(Attendance, WhoNeverComesIsNamed) {
  std::barrier it_was_missed(2);
  asup::testing::run_ranks(2, LinkKind::inproc, [&](Job& job) {
    Attendance attendance(circle_of(job));
    if (job.rank() == 0) {
      try {
        attendance.come(1, {0, 1}, Seconds(0), Seconds(0.05));
        ADD_FAILURE() << "it came";
      } catch (const JobFailed& error) {
        EXPECT_THAT(error.what(), HasSubstr("rank 1 did not come"));
      }
    }
    it_was_missed.arrive_and_wait();
  });
}

INSTANTIATE_TEST_SUITE_P(Links, AttendanceOnEveryLink,
                         ::testing::Values(LinkKind::inproc, LinkKind::shm, LinkKind::tcp),
                         [](const auto& info) { return asup::testing::name_of(info.param); });

}  // namespace
}  // namespace asup::pairwise::testing
