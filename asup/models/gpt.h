// GPT-2: Radford et al., "Language models are unsupervised multitask learners", 2019. Pre-norm
// blocks of causal self-attention and an MLP with GELU, learned positions, and one matrix for both
// ends: embedding of tokens and scores of the next one.
//
// Tensors have the names and layout of Hugging Face's GPT2LMHeadModel, whose linear layers keep
// their weights as input x output.
#pragma once

#include "asup/models/model.h"

namespace asup::models {

// Width 128, depth 4 and a head for each 64 of the width unless the options say otherwise. Throws
// BadInput for heads that do not divide the width.
std::shared_ptr<Model> make_gpt(const ModelOptions& options);

// Heads of attention that it would have. Throws as make_gpt() does.
std::int64_t heads_of_gpt(const ModelOptions& options);

// Throws BadInput where its heads and its vocabulary cannot be cut over so many ranks.
void require_parts_of_gpt(const ModelOptions& options, int ranks);

}  // namespace asup::models
