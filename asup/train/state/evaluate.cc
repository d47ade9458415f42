#include "asup/train/state/evaluate.h"

#include "asup/data/prefetch.h"
#include "asup/data/sharding.h"

namespace asup::train {
namespace {

namespace F = torch::nn::functional;

// While it lives, the model is in evaluation mode.
class EvaluationMode {
 public:
  explicit EvaluationMode(models::Model& model) : model_(model) { model_.eval(); }
  ~EvaluationMode() { model_.train(); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  models::Model& model_;
};

// Adds a batch's results to this rank's.
void add(Evaluation& evaluation, const torch::Tensor& scores, const torch::Tensor& target,
         std::span<const std::int64_t> indices) {  // all on the CPU
  const auto options = F::CrossEntropyFuncOptions().reduction(torch::kSum);
  evaluation.loss += F::cross_entropy(scores, target, options).item<double>();
  const auto [confidence, predicted] = torch::softmax(scores, 1).max(1);
  const auto sure = confidence.to(torch::kFloat64);
  const auto* confidences = sure.const_data_ptr<double>();
  const auto* predictions = predicted.const_data_ptr<std::int64_t>();
  const auto* truths = target.const_data_ptr<std::int64_t>();
  for (std::size_t i = 0; i < indices.size(); ++i) {
    evaluation.own.push_back({indices[i], truths[i], predictions[i], confidences[i]});
    ++evaluation
          .confusion[static_cast<std::size_t>(truths[i] * evaluation.classes + predictions[i])];
  }
}

void sum_over_ranks(Communicator& communicator, Evaluation& evaluation) {
  communicator.all_reduce(buffer_of(std::span(&evaluation.loss, 1))).or_throw();
  communicator.all_reduce(buffer_of(std::span(evaluation.confusion))).or_throw();
  std::int64_t right = 0;
  for (std::size_t i = 0; i < evaluation.confusion.size(); ++i) {
    const auto diagonal = static_cast<std::size_t>(evaluation.classes) + 1;
    evaluation.samples += evaluation.confusion[i];
    if (i % diagonal == 0) right += evaluation.confusion[i];
  }
  const auto samples = static_cast<double>(evaluation.samples);
  evaluation.loss /= samples;
  evaluation.accuracy = static_cast<double>(right) / samples;
}

}  // namespace

Evaluation evaluate(Communicator& communicator, models::Model& model, const data::Dataset& dataset,
                    models::ConvolutionPath path, std::int64_t batch, const torch::Device& device) {
  torch::NoGradGuard no_grad;
  EvaluationMode mode(model);
  models::ConvolutionScope scope(path, models::Pass::forward);
  Evaluation evaluation;
  evaluation.classes = dataset.classes();
  evaluation.confusion.resize(static_cast<std::size_t>(dataset.classes() * dataset.classes()));

  const data::ShardedBatches batches(dataset.size(), 0, communicator.rank(), communicator.size(),
                                     static_cast<std::size_t>(batch), data::Remainder::keep,
                                     /*shuffle=*/false);
  data::Prefetcher ahead(dataset, batches, 0);
  for (std::size_t step = 0; auto part = ahead.next(); ++step) {
    const auto indices = batches.indices(0, step);
    if (!indices.empty())
      add(evaluation, model.forward(part->input.to(device)).cpu(), part->target, indices);
  }
  sum_over_ranks(communicator, evaluation);
  return evaluation;
}

}  // namespace asup::train
