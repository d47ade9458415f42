#include "asup/train/state/evaluate.h"

#include <array>
#include <cmath>
#include <numbers>

#include "asup/data/prefetch.h"
#include "asup/data/sharding.h"
#include "asup/models/evaluation_mode.h"
#include "asup/models/task.h"

namespace asup::train {
namespace {

constexpr std::int64_t kTop = 5;

// Of images. The target is on the CPU, and the others are where the model is.
void add_examples(Evaluation& evaluation, const torch::Tensor& scores,
                  const torch::Tensor& predicted, const torch::Tensor& target,
                  std::span<const std::int64_t> indices) {
  const auto sure =
      torch::softmax(scores, 1).gather(1, predicted.unsqueeze(1)).to(torch::kFloat64).cpu();
  const auto said = predicted.cpu();
  const auto* confidences = sure.const_data_ptr<double>();
  const auto* predictions = said.const_data_ptr<std::int64_t>();
  const auto* truths = target.const_data_ptr<std::int64_t>();
  for (std::size_t i = 0; i < indices.size(); ++i) {
    evaluation.own.push_back({indices[i], truths[i], predictions[i], confidences[i]});
    if (evaluation.confusion.empty()) continue;
    ++evaluation
          .confusion[static_cast<std::size_t>(truths[i] * evaluation.classes + predictions[i])];
  }
}

using Scores = std::function<torch::Tensor(const torch::Tensor& input)>;

// Images have their width last.
torch::Tensor scores_of(const Scores& scores_of, const torch::Tensor& input, bool mirrored) {
  const torch::Tensor scores = scores_of(input);
  if (!mirrored) return scores;
  const torch::Tensor others = scores_of(input.flip(-1));
  return scores.defined() ? (scores + others) / 2 : scores;
}

// Adds a batch's results to this rank's: sums, as yet. Scores stay where the model is.
void add(Evaluation& evaluation, const torch::Tensor& scores, const torch::Tensor& target,
         std::span<const std::int64_t> indices) {
  const torch::Tensor there = target.to(scores.device()), predicted = scores.argmax(-1);
  evaluation.loss += models::sum_of_losses(scores, there).item<double>();
  evaluation.accuracy += models::sum_of_right(predicted, there);
  if (evaluation.top5) *evaluation.top5 += models::sum_among_highest(scores, there, kTop);
  evaluation.samples += static_cast<std::int64_t>(indices.size());
  if (evaluation.classes > 0) add_examples(evaluation, scores, predicted, target, indices);
}

void average_over_ranks(Communicator& communicator, Evaluation& evaluation) {
  std::array<double, 4> sums{evaluation.loss, evaluation.accuracy,
                             static_cast<double>(evaluation.samples), evaluation.top5.value_or(0)};
  communicator.all_reduce(buffer_of(std::span(sums))).or_throw();
  if (!evaluation.confusion.empty())
    communicator.all_reduce(buffer_of(std::span(evaluation.confusion))).or_throw();
  evaluation.loss = sums[0] / sums[2];
  evaluation.accuracy = sums[1] / sums[2];
  evaluation.samples = static_cast<std::int64_t>(sums[2]);
  if (evaluation.top5) evaluation.top5 = sums[3] / sums[2];
}

void add_figures_of_text(Evaluation& evaluation, const data::Text& text) {
  evaluation.perplexity = std::exp(evaluation.loss);
  evaluation.bits_per_byte = evaluation.loss / std::numbers::ln2 / text.bytes_per_token;
}

}  // namespace

Evaluation evaluate(Communicator& communicator, models::Model& model, const data::Dataset& dataset,
                    const EvaluationPlan& plan) {
  torch::NoGradGuard no_grad;
  const models::EvaluationMode mode(model);
  models::ConvolutionScope scope(plan.path, models::Pass::forward);
  Evaluation evaluation;
  if (!dataset.text()) {
    evaluation.classes = dataset.classes();
    if (evaluation.classes > kTop) evaluation.top5 = 0;
    if (evaluation.classes <= kMostConfused)
      evaluation.confusion.resize(
          static_cast<std::size_t>(evaluation.classes * evaluation.classes));
  }

  const auto groups = plan.groups.value_or(EvaluationPlan::Groups{
      communicator.rank(), communicator.size(),
      [&model](const torch::Tensor& input) { return model.forward(input); }});
  const data::ShardedBatches batches(dataset.size(), 0, groups.group, groups.groups,
                                     static_cast<std::size_t>(plan.batch), data::Remainder::keep,
                                     /*shuffle=*/false);
  data::Prefetcher ahead(dataset, batches, 0);
  for (std::size_t step = 0; auto part = ahead.next(); ++step) {
    const auto indices = batches.indices(0, step);
    if (indices.empty()) continue;
    const auto scores = scores_of(groups.scores, part->input.to(plan.device), plan.mirrored);
    if (scores.defined()) add(evaluation, scores, part->target, indices);
  }
  average_over_ranks(communicator, evaluation);
  if (const data::Text* text = dataset.text()) add_figures_of_text(evaluation, *text);
  return evaluation;
}

}  // namespace asup::train
