#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "asup/data/mixup.h"
#include "asup/data/text/text_dataset.h"
#include "asup/data/text/text_files.h"
#include "asup/data/text/tokenizer.h"
#include "asup/data/text/utf8.h"
#include "tests/data/files.h"

namespace asup::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Every three bytes tell where they are.
std::string counting(std::size_t size) {
  std::string text;
  for (std::size_t i = 0; text.size() < size; ++i) {
    text += static_cast<char>('a' + i / 26 % 26);
    text += static_cast<char>('a' + i % 26);
    text += ' ';
  }
  text.resize(size - 1);
  return text + '\n';
}

std::unique_ptr<Dataset> open(const std::filesystem::path& path, Split split,
                              const TextOptions& options, std::uint64_t seed = 3) {
  return open_text("text:" + path.string(), split, options, seed);
}

std::string text_of(const torch::Tensor& tokens) {
  const auto* begin = tokens.const_data_ptr<std::int64_t>();
  return {begin, begin + tokens.numel()};
}

TEST(Utf8, KnowsWhatIsNone) {
  EXPECT_EQ(first_bad_character(""), std::nullopt);
  EXPECT_EQ(first_bad_character("plain text of ASCII, and more of it"), std::nullopt);
  EXPECT_EQ(first_bad_character("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"), std::nullopt);
  EXPECT_EQ(first_bad_character("twelve bytes\xff"), 12);
  EXPECT_EQ(first_bad_character("\xc3\xa9\xc3"), 2);      // cut off
  EXPECT_EQ(first_bad_character("a\x80"), 1);             // goes on what did not begin
  EXPECT_EQ(first_bad_character("\xc0\xaf"), 0);          // overlong
  EXPECT_EQ(first_bad_character("\xe0\x80\xaf"), 0);      // overlong
  EXPECT_EQ(first_bad_character("\xed\xa0\x80"), 0);      // a surrogate
  EXPECT_EQ(first_bad_character("\xf4\x90\x80\x80"), 0);  // above U+10FFFF
  EXPECT_EQ(character_start("a\xe2\x82\xac", 3), 1u);
}

TEST(Text, TheEndIsForTheTest) {
  const TemporaryFolder folder;
  const auto file = folder.write("book", bytes_of(counting(1000)));
  const std::string train = read_text(file, Split::train, 0.2);
  const std::string test = read_text(file, Split::test, 0.2);
  EXPECT_EQ(train.size(), 800u);
  EXPECT_EQ(train + test, counting(1000));
}

TEST(Text, IsCutBetweenCharacters) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 33; ++i) text += "\xe2\x82\xac";
  const auto file = folder.write("euros", bytes_of(text));
  const std::string train = read_text(file, Split::train, 0.5);
  EXPECT_EQ(first_bad_character(train), std::nullopt);
  EXPECT_EQ(train + read_text(file, Split::test, 0.5), text + "\n");
}

TEST(Text, AFolderIsItsFilesInOrder) {
  const TemporaryFolder folder;
  folder.write("b.txt", bytes_of("second\n"));
  folder.write("a.txt", bytes_of("first, without an end"));
  folder.write("c.md", bytes_of("left out\n"));
  EXPECT_EQ(read_text(folder.path(), Split::train, 0.01), "first, without an end\nsecond\n");
  folder.write("train.txt", bytes_of("to train\n"));
  folder.write("valid.txt", bytes_of("to test\n"));
  EXPECT_EQ(read_text(folder.path(), Split::train, 0.5), "to train\n");
  EXPECT_EQ(read_text(folder.path(), Split::test, 0.5), "to test\n");
}

TEST(Text, TargetsAreTheNextTokens) {
  const TemporaryFolder folder;
  const auto file = folder.write("book", bytes_of(counting(1000)));
  const auto test = open(file, Split::test, {.context = 7, .test_share = 0.3});
  EXPECT_EQ(test->size(), 299u / 7);
  EXPECT_EQ(test->input_shape(), std::vector<std::int64_t>{7});
  EXPECT_EQ(test->classes(), 256);
  const Batch batch = test->get(all_of(*test));
  EXPECT_EQ(batch.input.scalar_type(), torch::kInt64);
  EXPECT_EQ(text_of(batch.input), counting(1000).substr(700, 42 * 7));
  EXPECT_EQ(text_of(batch.target), counting(1000).substr(701, 42 * 7));
  EXPECT_EQ(test->text()->tokens, 7);
  EXPECT_EQ(test->text()->bytes_per_token, 1);
}

TEST(Text, AnEpochsWindowsLieOneAfterTheOther) {
  const TemporaryFolder folder;
  const auto file = folder.write("book", bytes_of(counting(1000)));
  const auto train = open(file, Split::train, {.context = 10, .test_share = 0.1});
  std::set<std::size_t> begins;
  for (std::uint64_t epoch = 0; epoch < 200; ++epoch) {
    const std::string seen = text_of(train->get(all_of(*train), epoch).input);
    const std::size_t begin = counting(1000).find(seen);
    ASSERT_LT(begin, 900 - seen.size()) << "epoch " << epoch;
    begins.insert(begin);
  }
  EXPECT_EQ(train->size(), 89u);
  EXPECT_EQ(*begins.begin(), 0u);
  EXPECT_EQ(*begins.rbegin(), 9u);  // the last window ends before the last token, its last target
  EXPECT_EQ(begins.size(), 10u);
}

TEST(Text, TheSameWindowWhoeverAsks) {
  const TemporaryFolder folder;
  const auto file = folder.write("book", bytes_of(counting(2000)));
  const auto one = open(file, Split::train, {.context = 16}, 5);
  const auto other = open(file, Split::train, {.context = 16}, 5);
  const std::vector<std::int64_t> some{17, 3}, alone{3};
  EXPECT_TRUE(one->get(some, 4).input[1].equal(other->get(alone, 4).input[0]));
  const auto another_seed = open(file, Split::train, {.context = 16}, 6);
  bool differs = false;
  for (std::uint64_t epoch = 0; epoch < 8; ++epoch)
    differs = differs || !one->get(alone, epoch).input.equal(another_seed->get(alone, epoch).input);
  EXPECT_TRUE(differs);
}

// A text of one window and a bit is enough.
TEST(Text, MayBeAsShortAsOneWindow) {
  const TemporaryFolder folder;
  folder.write("train.txt", bytes_of(counting(12)));
  folder.write("test.txt", bytes_of(counting(11)));
  const auto train = open(folder.path(), Split::train, {.context = 10});
  EXPECT_EQ(train->size(), 1u);
  for (std::uint64_t epoch = 0; epoch < 20; ++epoch) train->get(all_of(*train), epoch);
  EXPECT_EQ(open(folder.path(), Split::test, {.context = 10})->size(), 1u);
}

TEST(Text, SaysWhatIsWrong) {
  const TemporaryFolder folder, empty;
  const auto missing = folder.path() / "nowhere";
  EXPECT_THAT(message_of([&] { read_text(missing, Split::train, 0.1); }),
              AllOf(HasSubstr("nowhere"), HasSubstr("no such file")));
  EXPECT_THAT(message_of([&] { read_text(empty.path(), Split::train, 0.1); }),
              HasSubstr("no file in it ends in .txt"));
  const auto nothing = folder.write("nothing", {});
  EXPECT_THAT(message_of([&] { read_text(nothing, Split::train, 0.1); }), HasSubstr("is empty"));
  const auto latin = folder.write("latin1", bytes_of("caf\xe9 noir"));
  EXPECT_THAT(message_of([&] { read_text(latin, Split::train, 0.1); }),
              AllOf(HasSubstr("latin1"), HasSubstr("byte 3 is 0xe9"), HasSubstr("iconv")));
  const auto book = folder.write("book", bytes_of(counting(100)));
  EXPECT_THAT(message_of([&] { open(book, Split::train, {.context = 90}); }),
              AllOf(HasSubstr("90 tokens to train on"), HasSubstr("Lower context")));
  EXPECT_THAT(message_of([&] { open(book, Split::test, {.context = 10}); }),
              AllOf(HasSubstr("10 tokens to test with"), HasSubstr("raise text-test")));
}

// A link that leads to itself is no file.
TEST(Text, LeavesOutWhatCannotBeLookedAt) {
  const TemporaryFolder folder;
  for (const char* name : {"train.txt", "loop.txt"})
    std::filesystem::create_symlink(name, folder.path() / name);
  folder.write("test.txt", bytes_of("all there is\n"));
  EXPECT_EQ(read_text(folder.path(), Split::train, 0), "all there is\n");
}

TEST(Text, IsTextThoughItsSamplesAreChanged) {
  const TemporaryFolder folder;
  auto book = open(folder.write("book", bytes_of(counting(100))), Split::train, {.context = 9});
  const Text* const text = book->text();
  EXPECT_EQ(make_mixed(std::move(book), 0.2, 1)->text(), text);
}

TEST(TokenBuffer, GivesBackTokensOfAnyVocabulary) {
  for (const int vocabulary : {256, 257, 65536, 65537}) {
    TokenBuffer tokens{std::int64_t{vocabulary}};
    const std::vector<std::int64_t> values{0, vocabulary - 1, vocabulary / 2};
    for (const std::int64_t value : values) tokens.push_back(value);
    EXPECT_EQ(tokens.size(), 3u);
    std::vector<std::int64_t> back(2);
    tokens.copy(1, 2, back.data());
    EXPECT_EQ(back, std::vector(values.begin() + 1, values.end()));
  }
}

TEST(Tokenizer, IsToHaveSoManyTokens) {
  EXPECT_EQ(vocabulary_to_train("bytes"), 0);
  EXPECT_EQ(vocabulary_to_train("a.model"), 0);
  EXPECT_EQ(vocabulary_to_train("sentencepiece:8000"), 8000);
  for (const char* wrong : {"sentencepiece:", "sentencepiece:many", "sentencepiece:10"})
    EXPECT_THAT(message_of([&] { vocabulary_to_train(wrong); }), HasSubstr("300"));
}

}  // namespace
}  // namespace asup::data
