// What `asup bench` says to flags that cannot be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/program.h"

namespace asup::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(AsupBench, RefusesBadInput) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--rate", "5"}, "--rate '5' is no rate; write it as 100mbit, 1gbit or 10gbit"},
      {{"--ways", "lokal"}, "--ways lokal: there is allreduce, balance, local"},
      {{"--ways", "local,local"}, "the way local is named twice"},
      {{"--way", "mine"}, "--way 'mine': write a name of letters"},
      {{"--way", "mine=--sync foo"}, "--sync: 'foo' is none of allreduce"},
      {{"--way", "mine=--sync"}, "the way mine: --sync wants a value"},
      {{"--way", "mine=--every 4"}, "the way mine: every = 4 has no effect"},
      {{"--way", "mine=--out here"}, "the way mine: --out is for the benchmark to say"},
      {{"--train", "--stems imagenet"}, "asup train has no flag --stems; did you mean 'stem'?"},
      {{"--model", "foo"}, "there is no model 'foo'"},
      {{"--html", "/no/such/folder/x.html"}, "--html /no/such/folder/x.html: no file can be"},
      {{"--slow", "0.5"}, "--slow 0.5: the last worker takes 1 to 1000 times as long"},
      {{"--seeds", "0"}, "--seeds 0: between 1 and 1000"},
      {{"--target", "80"}, "--target 80: an accuracy is between 0 and 1"},
      {{"--steps", "10", "--tests", "11"}, "--tests 11: between 1 and the 10 steps"},
      {{"--compute-allreduce", "400"}, "--compute-allreduce 400: fewer than the 400 steps"},
      {{"--lr", "fast"}, "--lr fast: a number above 0, or auto"},
      {{"--rates", "rates.json"}, "--rates rates.json: learning rates are tuned with --lr auto"},
      {{"--wokers", "2"}, "did you mean '--workers'?"},
  };
  for (const auto& [flags, message] : cases) {
    std::vector<std::string> words{"bench", "time-to-accuracy"};
    words.insert(words.end(), flags.begin(), flags.end());
    const Ended ended = run(words);
    EXPECT_EQ(ended.status, 2) << message;
    EXPECT_THAT(ended.last_error, HasSubstr(message));
  }
  const Ended scene = run({"bench", "stragglers", "--scenes", "nowhere"});
  EXPECT_EQ(scene.status, 2);
  EXPECT_THAT(scene.last_error, HasSubstr("--scenes nowhere: there is equal, slow, "));
}

TEST(AsupBench, RefusesBatchesThatCannotBe) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--batches", "128,x"}, "--batches"},
      {{"--batches", "1"}, "--batches 1: a batch has a sample for each of the 2 workers"},
      {{"--batches", "64,100"}, "--batches 100: a batch that grows becomes a whole multiple"},
      {{"--ways", "lras"}, "--ways lras: there is sgd, nesterov, lars, lamb, growing"},
      {{"--seeds", "0"}, "--seeds 0: between 1 and 1000"},
      {{"--jobs", "0"}, "--jobs 0: between 1 and 256"},
      {{"--epochs", "0"}, "--epochs 0: one is the least"},
      {{"--train", "--lr 1"}, "--train '--lr 1': --lr is for the benchmark to say"},
      {{"--ways", "lars", "--train", "--stems small"}, "asup train has no flag --stems"},
      {{"--ways", "lamb", "--batches", "64", "--train", "--momentum 0.5"},
       "lamb has a momentum of its own"},
      {{"--ways", "lars", "--batches", "9000"}, "--batches 9000: synthetic has 8192 training"},
      {{"--html", "/no/such/folder/x.html"}, "--html /no/such/folder/x.html: no file can be"},
      {{"--ways", "lars", "--batches", "64", "--model", "foo"}, "there is no model 'foo'"},
  };
  for (const auto& [flags, message] : cases) {
    std::vector<std::string> words{"bench", "large-batch", "--data", "synthetic"};
    words.insert(words.end(), flags.begin(), flags.end());
    const Ended ended = run(words);
    EXPECT_EQ(ended.status, 2) << message;
    EXPECT_THAT(ended.last_error, HasSubstr(message));
  }
}

TEST(AsupBench, TakesSizesInBytes) {
  const Ended ended =
      run({"bench", "collective", "--sizes", "6291456,1025", "--link", "inproc", "--quick"});
  EXPECT_EQ(ended.status, 0) << ended.last_error;
  EXPECT_THAT(ended.text, AllOf(HasSubstr("6M"), HasSubstr("1025")));
  for (const char* text : {"0", "3", "6Q", "1125899906842625", "1048577G"}) {
    const Ended wrong = run({"bench", "collective", "--sizes", text});
    EXPECT_EQ(wrong.status, 2) << text;
    EXPECT_THAT(wrong.last_error, HasSubstr("--sizes: ")) << text;
  }
}

// It checks what a step does before it times any.
TEST(AsupBench, StepsOfAnEmbeddingTable) {
  const Ended ended = run({"bench", "embedding", "--quick", "--workers", "2", "--rows", "500",
                           "--ids", "64,100", "--width", "3", "--optimizer", "adam"});
  EXPECT_EQ(ended.status, 0) << ended.last_error;
  EXPECT_THAT(ended.text,
              AllOf(HasSubstr("steps of adam of a table of 500 x 3"), HasSubstr("100")));
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--pace", "ssp"}, "--pace ssp: there is bsp and asp"},
      {{"--optimizer", "lars"}, "--optimizer lars: there is sgd, adagrad and adam"},
      {{"--ids", "0"}, "--ids 0: a step has one or more"},
      {{"--rows", "0"}, "--rows 0 --width 32: a table has rows"},
  };
  for (const auto& [flags, message] : cases) {
    std::vector<std::string> words{"bench", "embedding"};
    words.insert(words.end(), flags.begin(), flags.end());
    const Ended wrong = run(words);
    EXPECT_EQ(wrong.status, 2) << message;
    EXPECT_THAT(wrong.last_error, HasSubstr(message));
  }
}

}  // namespace
}  // namespace asup::cli
