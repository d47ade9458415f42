// What join_by_mpi() says where asup is built without MPI. It is that file which this test links,
// whatever the rest was built with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "asup/base/error.h"
#include "asup/net/transport/mpi/join.h"
#include "tests/support/thrown.h"

namespace asup::net {
namespace {

TEST(WithoutMpi, SaysWhatToDo) {
  using ::testing::AllOf, ::testing::HasSubstr;
  EXPECT_THAT(testing::message_of<BadInput>([] { join_by_mpi({}, {}); }),
              AllOf(HasSubstr("built without MPI"), HasSubstr("install libopenmpi-dev"),
                    HasSubstr("ASUP_LINKS=auto")));
  EXPECT_EQ(mpi_library(), "none");
}

}  // namespace
}  // namespace asup::net
