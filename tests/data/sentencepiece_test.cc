#include "asup/data/text/sentencepiece/sentencepiece.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "asup/data/text/text_dataset.h"
#include "tests/data/files.h"

namespace asup::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string prose() {
  std::string text;
  for (const char* who : {"The cat", "A dog", "Every bird", "No fish", "My caf\xc3\xa9"})
    for (const char* does : {"sees", "  hears", "likes", "forgets", "remembers"})
      for (const char* what : {"the sea.", "a song;", "\tits name", "", "nothing at all!"})
        text += std::string(who) + " " + does + " " + what + "\n";
  return text;
}

TEST(SentencePiece, TextComesBackAsItWas) {
  const std::string model = train_sentencepiece(prose(), 420);
  const auto tokenizer = load_tokenizer(model, "it");
  EXPECT_EQ(tokenizer->vocabulary(), 420);
  EXPECT_EQ(tokenizer->model(), model);
  const std::string text = prose() + "\n\nUnseen: \xe2\x82\xac\n";
  const TokenBuffer tokens = tokenizer->encode(text);
  EXPECT_LT(tokens.size(), text.size() / 2);
  std::vector<std::int64_t> plain(tokens.size());
  tokens.copy(0, plain.size(), plain.data());
  EXPECT_EQ(tokenizer->decode(plain), text);
}

TEST(SentencePiece, TheSameTextMakesTheSameModel) {
  EXPECT_EQ(train_sentencepiece(prose(), 310), train_sentencepiece(prose(), 310));
}

TEST(SentencePiece, WindowsAreOfItsTokens) {
  const TemporaryFolder folder;
  const std::string text = prose();
  const auto file = folder.write("book", {text.begin(), text.end()});
  const std::string name = "text:" + file.string();
  TextOptions options{.context = 8};
  options.tokenizer_model = tokenizer_model_for(name, "sentencepiece:420", 0.1);
  const auto test = open_text(name, Split::test, options, 0);
  EXPECT_EQ(test->classes(), 420);
  EXPECT_GT(test->text()->bytes_per_token, 2);
  const std::int64_t first = 0;
  EXPECT_LT(test->get({&first, 1}).input.max().item<std::int64_t>(), 420);
}

TEST(SentencePiece, SaysWhatIsWrong) {
  const TemporaryFolder folder;
  const auto broken = folder.write("broken.model", {'n', 'o', ' ', 'm', 'o', 'd', 'e', 'l'});
  EXPECT_THAT(message_of([&] {
                load_tokenizer(make_tokenizer_model(broken.string(), ""), broken.string());
              }),
              AllOf(HasSubstr("broken.model"), HasSubstr("no model of SentencePiece")));
  EXPECT_THAT(message_of([&] { make_tokenizer_model("nowhere.model", ""); }),
              AllOf(HasSubstr("nowhere.model"), HasSubstr("is no file")));
  EXPECT_THAT(message_of([&] { train_sentencepiece("short\n", 5000); }),
              HasSubstr("Ask for fewer tokens"));
}
}  // namespace
}  // namespace asup::data
