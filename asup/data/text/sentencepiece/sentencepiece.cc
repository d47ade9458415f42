#include "asup/data/text/sentencepiece/sentencepiece.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <string_view>
#include <unordered_map>
#include <vector>

#include "asup/base/error.h"
#include "asup/data/text/utf8.h"

namespace asup::data {
namespace {

// A tokenizer is trained on the beginning of a longer text, so that nobody waits for it for hours.
constexpr std::size_t kMostBytes = 100'000'000;

// Without their ends.
class Lines : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(std::string_view text) : text_(text) { take(); }

  bool done() const override { return done_; }
  void Next() override { take(); }
  const std::string& value() const override { return line_; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  void take() {
    done_ = text_.empty();
    const std::size_t end = std::min(text_.find('\n'), text_.size());
    line_ = text_.substr(0, end);
    text_.remove_prefix(std::min(end + 1, text_.size()));
  }

  std::string_view text_;
  std::string line_;
  bool done_ = false;
};

class SentencePieceTokenizer : public Tokenizer {
 public:
  SentencePieceTokenizer(std::string model, const std::string& from) : model_(std::move(model)) {
    const auto status = processor_.LoadFromSerializedProto(model_);
    require(status.ok(), "{}: is no model of SentencePiece ({})", from, status.ToString());
    require(processor_.eos_id() >= 0,
            "{}: has no end-of-sentence token, which is to end lines. Train it with an eos_id.",
            from);
  }

  std::int64_t vocabulary() const override { return processor_.GetPieceSize(); }

  TokenBuffer encode(std::string text) const override {
    TokenBuffer tokens(vocabulary());
    std::vector<int> ids;
    for (Lines lines(text); !lines.done(); lines.Next()) {
      const auto status = processor_.Encode(lines.value(), &ids);
      check(status.ok(), "SentencePiece cannot take a line apart: {}", status.ToString());
      for (const int id : ids) tokens.push_back(id);
      tokens.push_back(processor_.eos_id());
    }
    return tokens;
  }

  std::string decode(std::span<const std::int64_t> tokens) const override {
    std::string text;
    std::vector<int> line;
    const auto end_line = [&] {
      std::string decoded;
      check(processor_.Decode(line, &decoded).ok(), "SentencePiece cannot put tokens together");
      text += decoded;
      line.clear();
    };
    for (const std::int64_t token : tokens) {
      if (token != processor_.eos_id()) {
        line.push_back(static_cast<int>(token));
        continue;
      }
      end_line();
      text += '\n';
    }
    end_line();
    return text;
  }

  const std::string& model() const override { return model_; }

 private:
  const std::string model_;
  sentencepiece::SentencePieceProcessor processor_;
};

}  // namespace

std::string train_sentencepiece(const std::string& text, std::int64_t vocabulary) {
  const std::unordered_map<std::string, std::string> options{
      {"vocab_size", std::to_string(vocabulary)},
      {"model_type", "bpe"},
      {"byte_fallback", "true"},
      {"normalization_rule_name", "identity"},
      {"remove_extra_whitespaces", "false"},
      {"max_sentence_length", "1000000"},
      {"minloglevel", "2"}};
  const std::size_t end = character_start(text, std::min(text.size(), kMostBytes));
  Lines lines(std::string_view(text).substr(0, end));
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(options, &lines, &model);
  require(status.ok(),
          "tokenizer = sentencepiece:{}: it cannot be trained on this text: {}. Ask for fewer "
          "tokens, or give a longer text.",
          vocabulary, status.ToString());
  return model;
}

std::unique_ptr<Tokenizer> load_sentencepiece(const std::string& model, const std::string& from) {
  return std::make_unique<SentencePieceTokenizer>(model, from);
}

}  // namespace asup::data
