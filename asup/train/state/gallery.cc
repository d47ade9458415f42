// evaluation.json: the part of evaluate.h that is looked at.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "asup/report/class_names.h"
#include "asup/report/png.h"
#include "asup/train/state/evaluate.h"

namespace asup::train {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kFirst = 24, kMistakes = 24;

std::vector<Example> first_examples(const std::vector<Example>& own) {
  auto examples = own;
  std::sort(examples.begin(), examples.end(),
            [](const Example& a, const Example& b) { return a.index < b.index; });
  examples.resize(std::min(kFirst, examples.size()));
  return examples;
}

std::vector<Example> surest_mistakes(const std::vector<Example>& own) {
  std::vector<Example> examples;
  std::copy_if(own.begin(), own.end(), std::back_inserter(examples),
               [](const Example& example) { return example.truth != example.predicted; });
  std::sort(examples.begin(), examples.end(), [](const Example& a, const Example& b) {
    return a.confidence != b.confidence ? a.confidence > b.confidence : a.index < b.index;
  });
  examples.resize(std::min(kMistakes, examples.size()));
  return examples;
}

// The normalised image, stretched so that its darkest value is black and its brightest white.
std::string picture(const torch::Tensor& image) {
  const auto darkest = image.min(), brightest = image.max();
  const auto bytes = ((image - darkest) / (brightest - darkest).clamp_min(1e-6) * 255)
                         .round()
                         .to(torch::kUInt8)
                         .permute({1, 2, 0})
                         .contiguous();
  const std::span pixels(bytes.const_data_ptr<std::uint8_t>(),
                         static_cast<std::size_t>(bytes.numel()));
  return report::png_data_uri(pixels, static_cast<int>(image.size(2)),
                              static_cast<int>(image.size(1)), static_cast<int>(image.size(0)));
}

Json gallery_of(const std::vector<Example>& examples, const data::Dataset& dataset) {
  std::vector<std::int64_t> indices;
  for (const Example& example : examples) indices.push_back(example.index);
  const data::Batch batch = dataset.get(indices);
  Json gallery = Json::array();
  for (std::size_t i = 0; i < examples.size(); ++i) {
    gallery.push_back({{"index", examples[i].index},
                       {"truth", examples[i].truth},
                       {"predicted", examples[i].predicted},
                       {"confidence", examples[i].confidence},
                       {"image", picture(batch.input[static_cast<std::int64_t>(i)])}});
  }
  return gallery;
}

}  // namespace

Json describe_evaluation(const Evaluation& evaluation, const data::Dataset& dataset) {
  Json out{{"classes", report::class_names(dataset.name(), evaluation.classes)},
           {"confusion", evaluation.confusion}};
  const auto shape = dataset.input_shape();
  if (shape.size() != 3 || (shape[0] != 1 && shape[0] != 3))
    return out;  // nothing that a picture shows
  out["first"] = gallery_of(first_examples(evaluation.own), dataset);
  out["mistakes"] = gallery_of(surest_mistakes(evaluation.own), dataset);
  return out;
}

}  // namespace asup::train
