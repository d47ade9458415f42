#include "asup/config/given.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "asup/base/error.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/thrown.h"

namespace asup::config {
namespace {

using asup::testing::message_of;
using asup::testing::TemporaryFolder;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Options {
  std::int64_t batch = 128;
  double lr = 0;
};

const std::vector<Setting>& rows() {
  static const std::vector<Setting> all{{"batch", field<&Options::batch>(), "samples", kCount},
                                        {"lr", field<&Options::lr>(), "rate", {0, 1000}}};
  return all;
}

class GivenTest : public ::testing::Test {
 protected:
  std::string refusal(const std::string& toml) {
    const auto path = folder_.write("job.toml", toml);
    const auto message = message_of<BadInput>([&] {
      Given given;
      given.read_toml(path);
      Options options;
      given.fill({rows(), &options});
    });
    EXPECT_THAT(message, StartsWith(path));
    return message.substr(std::min(message.size(), path.size()));
  }
  TemporaryFolder folder_;
};

TEST_F(GivenTest, ALaterSourceGoesOverAnEarlierOne) {
  Given given;
  given.read_toml(folder_.write("job.toml", "batch = 64\nlr = 1\n"));
  given.begin_source();
  given.say("batch", "32", "--batch");
  Options options;
  given.fill({rows(), &options});
  EXPECT_EQ(options.batch, 32);
  EXPECT_EQ(options.lr, 1);
  EXPECT_TRUE(given.has("lr"));
  EXPECT_FALSE(given.has("seed"));
}

TEST_F(GivenTest, MistakesAreNamedWithFileAndLine) {
  EXPECT_EQ(refusal("\n\nbatch = 0\n"), ":3: batch: 0 is out of range (allowed: 1 … 1000000000)");
  EXPECT_THAT(refusal("batch = \"many\"\n"), HasSubstr(":1: batch: 'many' is not a whole number"));
  EXPECT_THAT(refusal("[optimizer]\nlr = 1\n"), HasSubstr(":1: optimizer: a text, a number"));
  EXPECT_THAT(refusal("batch = [1]\n"), HasSubstr("not a table, list or date"));
  EXPECT_THAT(refusal("batch = = 3\n"), HasSubstr(":1: "));
  EXPECT_THAT(refusal("[{a = 1}]\n"), HasSubstr("it is no TOML"));
  EXPECT_THAT(refusal("# é\nlr = é\n"), HasSubstr(":2: a letter that is not ASCII"));
  EXPECT_THAT(refusal("lr = 1\"x\"\n"), HasSubstr(":1: a letter that is not ASCII, or a quote"));
  EXPECT_THAT(refusal("lr = 0.1\nlr = 0.2\n"), HasSubstr(":2: "));
}

TEST_F(GivenTest, LettersOfAllKindsMayStandInQuotesAndComments) {
  Given given;
  given.read_toml(folder_.write("job.toml",
                                "\xef\xbb\xbf# é\n"
                                R"(a = "\"é" # é
b = 'é\'
c = '''é
'é'''
d = """é\"é
"""""
e = ""
f = 'é'
)"));
  EXPECT_EQ(given.text_before("a", 9, ""), "\"é");
  EXPECT_EQ(given.text_before("b", 9, ""), "é\\");
  EXPECT_EQ(given.text_before("c", 9, ""), "é\n'é");
  EXPECT_EQ(given.text_before("d", 9, ""), "é\"é\n\"\"");
  EXPECT_EQ(given.text_before("f", 9, ""), "é");
}

TEST_F(GivenTest, FilesThatCannotBeReadAreNamed) {
  Given given;
  EXPECT_EQ(message_of<BadInput>([&] { given.read_toml(folder_.file("none.toml")); }),
            folder_.file("none.toml") + ": cannot be read (No such file or directory)");
  EXPECT_EQ(message_of<BadInput>([&] { given.read_toml(folder_.path()); }),
            folder_.path() + ": cannot be read (Is a directory)");
}

TEST_F(GivenTest, KnowsWhichSourceChangedAChoice) {
  Given given;
  given.begin_source();
  given.say("sync", "diloco", "a");
  given.say("every", std::int64_t{5}, "a");
  EXPECT_EQ(given.changed_by("sync", "allreduce"), 1);
  EXPECT_EQ(given.changed_by("sync", "diloco"), 0);
  given.begin_source();
  given.say("sync", "diloco", "b");
  EXPECT_EQ(given.changed_by("sync", "allreduce"), 1);
  given.begin_source();
  given.say("sync", "local", "c");
  EXPECT_EQ(given.changed_by("sync", "allreduce"), 3);
  given.forget(std::vector<std::string>{"every"}, 3);
  EXPECT_FALSE(given.has("every"));
  EXPECT_TRUE(given.has("sync"));
}

TEST(VariableOf, IsTheNameInCapitals) { EXPECT_EQ(variable_of("bucket-mb"), "ASUP_BUCKET_MB"); }

}  // namespace
}  // namespace asup::config
