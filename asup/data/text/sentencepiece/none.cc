#include "asup/base/error.h"
#include "asup/data/text/sentencepiece/sentencepiece.h"

namespace asup::data {
namespace {

[[noreturn]] void refuse() {
  throw BadInput(
      "tokenizer: this asup was built without SentencePiece. Install libsentencepiece-dev and "
      "build it again, or use tokenizer = bytes.");
}

}  // namespace

std::string train_sentencepiece(const std::string&, std::int64_t) { refuse(); }

std::unique_ptr<Tokenizer> load_sentencepiece(const std::string&, const std::string&) { refuse(); }

}  // namespace asup::data
