// A model's marks on the test set, each rank working on its part. Used from the thread that trains.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "asup/collective/communicator.h"
#include "asup/data/dataset.h"
#include "asup/models/compute_path.h"
#include "asup/models/model.h"
#include "asup/report/png.h"

namespace asup::train {

// One test image and what the model made of it.
struct Example {
  std::int64_t index = 0;
  std::int64_t truth = 0;
  std::int64_t predicted = 0;
  double confidence = 0;  // probability that the model gave its prediction
};

constexpr int kMostConfused = 32;  // classes; a larger confusion matrix nobody reads

struct Evaluation {
  double loss = 0;      // mean over the test set
  double accuracy = 0;  // of text, the share of tokens that were thought the likeliest
  std::int64_t samples = 0;
  std::int64_t broken = 0;  // of a data set that is opened for it: images that could not be read
  // Of text: e to the loss of a token, and the loss in bits of a byte that it stands for.
  std::optional<double> perplexity{}, bits_per_byte{};
  // Of images.
  int classes = 0;
  std::optional<double> top5{};  // the share whose class has one of the 5 highest scores, of more
  // Row: the truth, column: the prediction. Empty where there are more than kMostConfused classes.
  std::vector<std::int64_t> confusion{};
  std::vector<Example> own{};  // of this rank's part
};

struct EvaluationPlan {
  models::ConvolutionPath path = models::ConvolutionPath::onednn;
  std::int64_t batch = 1;              // samples worked on at once, on all ranks together
  torch::Device device = torch::kCPU;  // where the model is
  bool mirrored =
      false;  // of images: the scores are the mean of the image's and its mirror image's
  // Where groups of ranks compute the model together, this one's, and the scores of a batch: on one
  // rank of the group, and undefined on others. Else each rank is a group, by Model::forward().
  struct Groups {
    int group = 0, groups = 1;
    std::function<torch::Tensor(const torch::Tensor& input)> scores{};
  };
  std::optional<Groups> groups{};
};

// Collective; all but `own` is the same on all ranks. Leaves the model in training mode and all
// buffers as they were.
Evaluation evaluate(Communicator& communicator, models::Model& model, const data::Dataset& dataset,
                    const EvaluationPlan& plan);

// evaluation.json: class names, the confusion matrix where there is one, and a gallery: the first
// images, and those of which the model was surest and wrong. Of text there is nothing more to tell.
nlohmann::ordered_json describe_evaluation(const Evaluation& evaluation,
                                           const data::Dataset& dataset);

// The same images on two sheets, "samples" and "mistakes", framed green where the model was right
// and red where not. A sheet without images is left out.
struct Sheet {
  std::string name;
  report::Picture picture;
};
std::vector<Sheet> draw_sheets(const Evaluation& evaluation, const data::Dataset& dataset);

}  // namespace asup::train
