#include "asup/train/state/evaluate.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "asup/collective/mesh/mesh_communicator.h"
#include "tests/support/ranks.h"

namespace asup::train {
namespace {

constexpr std::int64_t kSamples = 200;

// A model that has learnt nothing, and images of so many classes.
struct Subject {
  explicit Subject(int classes) {
    data::DatasetOptions options;
    options.synthetic = {.test_size = kSamples, .shape = {1, 6, 6}, .classes = classes};
    test = data::open_dataset("synthetic", data::Split::test, options);
    torch::manual_seed(1);
    model = models::make_model("mlp", {.input_shape = {1, 6, 6}, .classes = classes, .width = 8});
    // Biases begin as 0: an image that no unit answers to would have the same score for all
    // classes.
    torch::NoGradGuard no_grad;
    for (torch::Tensor& parameter : model->parameters())
      parameter.add_(torch::randn_like(parameter), 0.01);
  }

  Evaluation marks(bool mirrored = false) const {
    Evaluation evaluation;
    asup::testing::run_ranks(1, net::LinkKind::inproc, [&](Job& job) {
      evaluation =
          evaluate(*make_communicator(job), *model, *test, {.batch = 32, .mirrored = mirrored});
    });
    return evaluation;
  }

  std::unique_ptr<data::Dataset> test;
  std::shared_ptr<models::Model> model;
};

TEST(Evaluate, MarksAreThoseOfTheWholeTestSet) {
  const Subject subject(10);
  const Evaluation evaluation = subject.marks();
  std::vector<std::int64_t> all(kSamples);
  std::iota(all.begin(), all.end(), 0);
  const data::Batch batch = subject.test->get(all);
  const torch::Tensor scores = subject.model->forward(batch.input);
  const torch::Tensor predicted = scores.argmax(1);
  EXPECT_EQ(evaluation.samples, kSamples);
  EXPECT_NEAR(evaluation.loss,
              torch::nn::functional::cross_entropy(scores, batch.target).item<double>(), 1e-5);
  EXPECT_DOUBLE_EQ(evaluation.accuracy,
                   predicted.eq(batch.target).to(torch::kFloat64).mean().item<double>());
  const torch::Tensor higher = scores.gt(scores.gather(1, batch.target.unsqueeze(1))).sum(1);
  ASSERT_TRUE(evaluation.top5.has_value());
  EXPECT_DOUBLE_EQ(*evaluation.top5, higher.lt(5).to(torch::kFloat64).mean().item<double>());
  EXPECT_GT(*evaluation.top5, evaluation.accuracy);
  ASSERT_EQ(evaluation.own.size(), all.size());
  std::vector<std::int64_t> confusion(100);
  for (const Example& example : evaluation.own) {
    EXPECT_EQ(example.predicted, predicted[example.index].item<std::int64_t>());
    EXPECT_NEAR(example.confidence, torch::softmax(scores[example.index], 0).max().item<double>(),
                1e-5);
    ++confusion[static_cast<std::size_t>(example.truth * 10 + example.predicted)];
  }
  EXPECT_EQ(evaluation.confusion, confusion);
  EXPECT_EQ(describe_evaluation(evaluation, *subject.test)["confusion"], confusion);
  EXPECT_TRUE(subject.model->is_training());
}

TEST(Evaluate, MirrorImagesCountAsMuch) {
  const Subject subject(10);
  std::vector<std::int64_t> all(kSamples);
  std::iota(all.begin(), all.end(), 0);
  const data::Batch batch = subject.test->get(all);
  const torch::Tensor scores =
      (subject.model->forward(batch.input) + subject.model->forward(batch.input.flip(3))) / 2;
  const double loss = torch::nn::functional::cross_entropy(scores, batch.target).item<double>();
  EXPECT_NEAR(subject.marks(true).loss, loss, 1e-5);
  EXPECT_GT(std::abs(subject.marks().loss - loss), 1e-4);
}

TEST(Evaluate, OfFiveClassesAllAreAmongTheFirstFive) {
  EXPECT_FALSE(Subject(5).marks().top5.has_value());
  EXPECT_TRUE(Subject(6).marks().top5.has_value());
}

TEST(Evaluate, OfManyClassesThereIsNoConfusionMatrix) {
  EXPECT_EQ(Subject(kMostConfused).marks().confusion.size(), 32u * 32);
  const Subject subject(kMostConfused + 1);
  const Evaluation evaluation = subject.marks();
  EXPECT_TRUE(evaluation.confusion.empty());
  EXPECT_EQ(evaluation.own.size(), static_cast<std::size_t>(kSamples));
  const nlohmann::ordered_json described = describe_evaluation(evaluation, *subject.test);
  EXPECT_FALSE(described.contains("confusion"));
  EXPECT_EQ(described["classes"].size(), 33u);
  EXPECT_EQ(described["first"].size(), 24u);
}

}  // namespace
}  // namespace asup::train
