// A text as a Dataset of windows: a sample is `context` tokens, and its target the same moved on by
// one, so that at each place the model is to say what comes next.
//
// An epoch is a pass over windows that lie one after the other, from a place that is another in
// each epoch. Those of a test begin at its first token. Constant after construction.
#pragma once

#include <memory>
#include <string>

#include "asup/data/dataset.h"

namespace asup::data {

// Whether a data set's name is "text:PATH".
bool is_text(const std::string& name);
std::string path_of_text(const std::string& name);  // needs: is_text(name)

// Throws BadInput as read_text() and load_tokenizer() do, and for a text shorter than a window.
std::unique_ptr<Dataset> open_text(const std::string& name, Split split, const TextOptions& options,
                                   std::uint64_t seed);

// The model of the tokenizer that is named, for TextOptions; it may be trained on the text.
std::string tokenizer_model_for(const std::string& name, const std::string& tokenizer,
                                double test_share);

}  // namespace asup::data
