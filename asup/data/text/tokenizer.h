// Text as tokens and back. Constant after construction: any thread may call one.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "asup/data/text/token_buffer.h"

namespace asup::data {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::int64_t vocabulary() const = 0;  // tokens are below it
  virtual TokenBuffer encode(std::string text) const = 0;
  virtual std::string decode(std::span<const std::int64_t> tokens) const = 0;
  // What load_tokenizer() makes the same one of.
  virtual const std::string& model() const = 0;
};

// The settings that name one: "bytes", "sentencepiece:8000", which is trained, or a file.
constexpr const char* kBytes = "bytes";
// Tokens of one that is to be trained; 0 for others. Throws BadInput for a number that is none.
std::int64_t vocabulary_to_train(const std::string& tokenizer);

// The model of the one that is named: of bytes, empty; of SentencePiece, a file of its own, read
// here or trained on `text`. Throws BadInput for what is neither.
std::string make_tokenizer_model(const std::string& tokenizer, const std::string& text);

// Throws BadInput for a model that cannot be used. `from` opens its message.
std::shared_ptr<const Tokenizer> load_tokenizer(const std::string& model, const std::string& from);

}  // namespace asup::data
