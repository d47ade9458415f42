#include "asup/data/text/tokenizer.h"

#include <filesystem>

#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/base/numbers.h"
#include "asup/data/text/sentencepiece/sentencepiece.h"

namespace asup::data {
namespace {

constexpr std::string_view kToTrain = "sentencepiece:";

class ByteTokenizer : public Tokenizer {
 public:
  std::int64_t vocabulary() const override { return 256; }
  TokenBuffer encode(std::string text) const override { return TokenBuffer(std::move(text)); }
  std::string decode(std::span<const std::int64_t> tokens) const override {
    return {tokens.begin(), tokens.end()};
  }
  const std::string& model() const override { return model_; }

 private:
  const std::string model_;  // there is nothing to know
};

}  // namespace

std::int64_t vocabulary_to_train(const std::string& tokenizer) {
  if (!tokenizer.starts_with(kToTrain)) return 0;
  const auto tokens = number_in<std::int64_t>(std::string_view(tokenizer).substr(kToTrain.size()));
  require(tokens && *tokens >= 300 && *tokens <= 1'000'000,
          "tokenizer = {}: say how many tokens it is to have, 300 … 1000000, like "
          "sentencepiece:8000",
          tokenizer);
  return *tokens;
}

std::string make_tokenizer_model(const std::string& tokenizer, const std::string& text) {
  if (tokenizer == kBytes) return "";
  if (const std::int64_t tokens = vocabulary_to_train(tokenizer); tokens > 0)
    return train_sentencepiece(text, tokens);
  std::error_code none;
  require(std::filesystem::is_regular_file(tokenizer, none),
          "tokenizer = {}: is no file. Give a model of SentencePiece, sentencepiece:8000 to have "
          "one of so many tokens trained, or {}.",
          tokenizer, kBytes);
  std::string model = read_file(tokenizer);
  require(!model.empty(), "tokenizer = {}: is empty; give a model of SentencePiece", tokenizer);
  load_sentencepiece(model, "tokenizer = " + tokenizer);  // it can be used, or is refused by name
  return model;
}

std::shared_ptr<const Tokenizer> load_tokenizer(const std::string& model, const std::string& from) {
  if (model.empty()) return std::make_shared<ByteTokenizer>();
  return load_sentencepiece(model, from);
}

}  // namespace asup::data
