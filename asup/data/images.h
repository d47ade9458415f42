// Labelled byte images as the readers leave them, and words that all of them share. Values only; no
// torch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace asup::data {

enum class Split { train, test };

struct Images {
  std::int64_t channels = 0, height = 0, width = 0;
  std::vector<std::uint8_t> pixels;  // N x C x H x W
  std::vector<std::uint8_t> labels;  // N, each below `classes`
  int classes = 0;

  std::size_t count() const { return labels.size(); }
  std::size_t image_size() const { return static_cast<std::size_t>(channels * height * width); }
};

// Of the training images' channels, on the scale 0 … 1.
struct Normalisation {
  std::vector<double> mean, deviation;

  bool operator==(const Normalisation&) const = default;
};

Normalisation measure_normalisation(const Images& images);

// `folder`/`file` or, where that does not exist, `folder`/`file`.gz; empty where neither does.
std::filesystem::path find_file(const std::filesystem::path& folder, const std::string& file);

}  // namespace asup::data
