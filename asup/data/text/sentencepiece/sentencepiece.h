// Tokens by SentencePiece: Kudo and Richardson, "SentencePiece: a simple and language independent
// subword tokenizer and detokenizer for neural text processing", 2018,
// https://arxiv.org/abs/1808.06226. Safe from any thread.
//
// A line of the text is a sentence to it, which its end-of-sentence token ends.
#pragma once

#include <memory>
#include <string>

#include "asup/data/text/tokenizer.h"

namespace asup::data {

// A model with so many tokens, by which text comes back as it was: characters are not normalised,
// and rare ones are spelled in bytes. Starts threads. Throws BadInput for a text that is too short
// for so many.
std::string train_sentencepiece(const std::string& text, std::int64_t vocabulary);

// Throws BadInput for what is no model of SentencePiece, or one without an end-of-sentence token.
std::unique_ptr<Tokenizer> load_sentencepiece(const std::string& model, const std::string& from);

}  // namespace asup::data
