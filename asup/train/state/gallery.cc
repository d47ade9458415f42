// The part of evaluate.h that is looked at: evaluation.json, and the sheets of pictures.
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
constexpr std::int64_t kPicturesAcross = 8, kFrame = 2, kLargestPicture = 64;  // of a sheet
constexpr std::int64_t kLargestInGallery = 128;  // pixels: what a page shows sharply

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
torch::Tensor to_bytes(const torch::Tensor& image) {
  const auto darkest = image.min(), brightest = image.max();
  const auto bytes = (image - darkest) / (brightest - darkest).clamp_min(1e-6) * 255;
  return bytes.round().to(torch::kUInt8);
}

report::Picture to_picture(const torch::Tensor& bytes) {
  const auto by_pixel = bytes.permute({1, 2, 0}).contiguous();
  const std::span pixels(by_pixel.const_data_ptr<std::uint8_t>(),
                         static_cast<std::size_t>(by_pixel.numel()));
  return report::make_picture(pixels, static_cast<int>(bytes.size(2)),
                              static_cast<int>(bytes.size(1)), static_cast<int>(bytes.size(0)));
}

bool can_be_seen(const data::Dataset& dataset) {
  const auto shape = dataset.input_shape();
  return shape.size() == 3 && (shape[0] == 1 || shape[0] == 3);
}

std::vector<std::string> names_of_classes(const data::Dataset& dataset) {
  auto names = dataset.class_names();
  return names.empty() ? report::class_names(dataset.name(), dataset.classes()) : names;
}

data::Batch load(const std::vector<Example>& examples, const data::Dataset& dataset) {
  std::vector<std::int64_t> indices;
  for (const Example& example : examples) indices.push_back(example.index);
  return dataset.get(indices);
}

// The longer side no longer than `most`.
torch::Tensor shrunk(const torch::Tensor& images, std::int64_t most) {
  const std::int64_t largest = std::max(images.size(2), images.size(3));
  if (largest <= most) return images;
  const auto side = [&](int axis) {
    return std::max<std::int64_t>(1, images.size(axis) * most / largest);
  };
  return torch::adaptive_avg_pool2d(images, {side(2), side(3)});
}

Json gallery_of(const std::vector<Example>& examples, const data::Dataset& dataset) {
  const torch::Tensor images = shrunk(load(examples, dataset).input, kLargestInGallery);
  Json gallery = Json::array();
  for (std::size_t i = 0; i < examples.size(); ++i) {
    gallery.push_back(
        {{"index", examples[i].index},
         {"truth", examples[i].truth},
         {"predicted", examples[i].predicted},
         {"confidence", examples[i].confidence},
         {"image", data_uri(to_picture(to_bytes(images[static_cast<std::int64_t>(i)])))}});
  }
  return gallery;
}

// Pictures side by side, in a green frame where the model was right, in a red one where not.
report::Picture sheet_of(const std::vector<Example>& examples, const data::Dataset& dataset) {
  const auto green = torch::tensor({46, 160, 67}).view({3, 1, 1});
  const auto red = torch::tensor({215, 58, 73}).view({3, 1, 1});
  const torch::Tensor images = shrunk(load(examples, dataset).input, kLargestPicture);
  const std::int64_t height = images.size(2) + 2 * kFrame, width = images.size(3) + 2 * kFrame;
  const std::int64_t rows = (images.size(0) + kPicturesAcross - 1) / kPicturesAcross;
  auto sheet = torch::full({3, rows * height, kPicturesAcross * width}, 255, torch::kUInt8);
  for (std::int64_t i = 0; i < images.size(0); ++i) {
    const auto place = sheet.narrow(1, i / kPicturesAcross * height, height)
                           .narrow(2, i % kPicturesAcross * width, width);
    const Example& example = examples[static_cast<std::size_t>(i)];
    place.copy_(example.truth == example.predicted ? green : red);
    place.narrow(1, kFrame, images.size(2))
        .narrow(2, kFrame, images.size(3))
        .copy_(to_bytes(images[i]));
  }
  return to_picture(sheet);
}

}  // namespace

Json describe_evaluation(const Evaluation& evaluation, const data::Dataset& dataset) {
  if (dataset.text()) return Json::object();
  Json out;
  out["classes"] = names_of_classes(dataset);
  if (!evaluation.confusion.empty()) out["confusion"] = evaluation.confusion;
  if (!can_be_seen(dataset)) return out;
  out["first"] = gallery_of(first_examples(evaluation.own), dataset);
  out["mistakes"] = gallery_of(surest_mistakes(evaluation.own), dataset);
  return out;
}

std::vector<Sheet> draw_sheets(const Evaluation& evaluation, const data::Dataset& dataset) {
  std::vector<Sheet> sheets;
  if (!can_be_seen(dataset)) return sheets;
  const auto draw = [&](const std::string& name, const std::vector<Example>& examples) {
    if (!examples.empty()) sheets.push_back({name, sheet_of(examples, dataset)});
  };
  draw("samples", first_examples(evaluation.own));
  draw("mistakes", surest_mistakes(evaluation.own));
  return sheets;
}

}  // namespace asup::train
