// What a rank that fails says is what the job ends with.
#include "asup/net/membership/failure_note.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "asup/base/error.h"
#include "launched.h"
#include "member_job.h"
#include "tests/support/temporary_folder.h"

namespace asup::launch {
namespace {

using asup::testing::TemporaryFolder;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

// The others throw too, because they miss it: never is one of them to blame.
TEST(FailureNote, AnExceptionNamesItsRank) {
  for (const char* rank : {"0", "1", "2", "1", "0", "2"}) {
    Launched job(member_job(3, {"fail", rank, "error"}));
    EXPECT_EQ(job.wait(), 1);
    EXPECT_THAT(job.last_line(),
                MatchesRegex(std::string("rank ") + rank + " .pid .* on .*. failed: no sample 7"));
    EXPECT_THAT(job.err(), HasSubstr(fmt::format("[{0}] asup: rank {0}: no sample 7", rank)));
    EXPECT_THAT(job.out(), HasSubstr("printed before")) << "what a program wrote is not lost";
  }
}

TEST(FailureNote, BadInputEndsWithTwo) {
  Launched job(member_job(2, {"fail", "1", "bad-input"}));
  EXPECT_EQ(job.wait(), 2);
  EXPECT_THAT(job.last_line(), MatchesRegex("rank 1 .* failed: there is no data in 'x'"));
}

TEST(FailureNote, ATerminateHandlerOfTheProgramStaysInCharge) {
  Launched job(member_job(2, {"fail", "1", "own-handler"}));
  EXPECT_EQ(job.wait(), 1);
  EXPECT_THAT(job.last_line(), MatchesRegex("rank 1 .* failed: no sample 7"));
  EXPECT_THAT(job.err(), HasSubstr("[1] the program's own handler"));
}

TEST(FailureNote, WithoutAnExceptionTheSignalIsNamed) {
  Launched job(member_job(2, {"fail", "1", "nothing"}));
  EXPECT_EQ(job.wait(), 1);
  EXPECT_THAT(job.last_line(), MatchesRegex("rank 1 .* was killed by signal 6 .SIGABRT."));
}

// As torchrun starts a process: the file's name is in the environment.
TEST(FailureNote, IsInTorchrunsFile) {
  const TemporaryFolder folder;
  LaunchOptions options = member_job(1, {"fail", "0", "bad-input"});
  options.environment = {"TORCHELASTIC_ERROR_FILE=" + folder.file("error.json")};
  Launched job(options);
  EXPECT_EQ(job.wait(), 2);
  std::ifstream file(folder.file("error.json"));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(text,
              MatchesRegex(R"(\{"message":"there is no data in 'x'","timestamp":"[0-9]+"\})"));
}

TEST(FailureNote, TorchsBacktraceIsLeftOut) {
  const std::runtime_error error("sizes differ\nException raised from f at g.cpp:3\nframe #0");
  EXPECT_EQ(net::note_of(error), (net::FailureNote{net::FailureNote::Kind::own, "sizes differ"}));
}

}  // namespace
}  // namespace asup::launch
