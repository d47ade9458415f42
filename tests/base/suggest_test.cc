#include "asup/base/suggest.h"

#include <gtest/gtest.h>

#include <vector>

namespace asup {
namespace {

const std::vector<std::string> kFlags = {"workers", "batch", "epochs", "lr", "seed", "sync"};

TEST(EditDistance, CountsEachKindOfMistakeOnce) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("", "seed"), 4u);
  EXPECT_EQ(edit_distance("batch", "batch"), 0u);
  EXPECT_EQ(edit_distance("bach", "batch"), 1u);    // left out
  EXPECT_EQ(edit_distance("battch", "batch"), 1u);  // one too many
  EXPECT_EQ(edit_distance("botch", "batch"), 1u);   // another
  EXPECT_EQ(edit_distance("abtch", "batch"), 1u);   // swapped
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("Batch", "BATCH"), 0u);
}

TEST(Nearest, FindsWhatWasMeant) {
  EXPECT_EQ(nearest("wrokers", kFlags), "workers");
  EXPECT_EQ(nearest("worker", kFlags), "workers");
  EXPECT_EQ(nearest("epoch", kFlags), "epochs");
  EXPECT_EQ(nearest("work", kFlags), "workers");  // shortened
  EXPECT_EQ(nearest("lt", kFlags), "lr");
}

TEST(Nearest, SaysNothingRatherThanNonsense) {
  EXPECT_EQ(nearest("momentum", kFlags), std::nullopt);
  EXPECT_EQ(nearest("xy", kFlags), std::nullopt);
  EXPECT_EQ(nearest("batch", {}), std::nullopt);
}

TEST(DidYouMean, EndsAMessage) {
  EXPECT_EQ(did_you_mean("wrokers", kFlags), "; did you mean 'workers'?");
  EXPECT_EQ(did_you_mean("momentum", kFlags), "");
}

}  // namespace
}  // namespace asup
