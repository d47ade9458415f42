// What a model is trained for. A classifier says the class of an image, a language model at each
// place of a text the token that follows: the losses of both are cross-entropy, and a sample's is
// the mean over its predictions, of which an image has one. Pure; safe from any thread.
#pragma once

#include <torch/torch.h>

#include <optional>

#include "asup/models/model.h"

namespace asup::models {

// Scores are N x classes or N x T x classes, targets N or N x T; of mixed samples, targets are
// shares of the classes, N x classes.

// The sum over samples, in f32 at least. `smoothing`: the share of each target that is spread
// evenly over all classes (Szegedy et al., "Rethinking the Inception architecture", CVPR 2016),
// below 1. `cut`: scores are this rank's part of them (Model::forward_part()); those of mixed
// samples are gathered. needs: a sample
torch::Tensor sum_of_losses(const torch::Tensor& scores, const torch::Tensor& target,
                            double smoothing = 0, const std::optional<CutScores>& cut = {});

// The sum over samples of the share of predictions that are right; `predicted` is the argmax of
// scores. needs: a sample; targets that are no shares
double sum_of_right(const torch::Tensor& predicted, const torch::Tensor& target);

// Of images: how many targets are among the `count` classes of the highest scores. needs: at least
// so many classes; targets that are no shares
double sum_among_highest(const torch::Tensor& scores, const torch::Tensor& target,
                         std::int64_t count);

}  // namespace asup::models
