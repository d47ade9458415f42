// Fashion-MNIST for plain libtorch: a torch::data dataset that reads the gzipped files as
// published.
#pragma once

#include <torch/torch.h>
#include <zlib.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

class FashionMnist : public torch::data::datasets::Dataset<FashionMnist> {
 public:
  // `part`: "train" or "t10k", as the files are called.
  FashionMnist(const std::string& folder, const std::string& part) {
    const auto pixels = read(folder + "/" + part + "-images-idx3-ubyte.gz", 16);
    const auto labels = read(folder + "/" + part + "-labels-idx1-ubyte.gz", 8);
    const auto count = static_cast<std::int64_t>(labels.size());
    if (pixels.size() != labels.size() * 28 * 28) {
      throw std::runtime_error(folder + ": not as many images as labels");
    }
    images_ = torch::tensor(pixels, torch::kUInt8).view({count, 1, 28, 28}).to(torch::kFloat32);
    images_ = (images_ / 255 - 0.2860) / 0.3530;  // mean and deviation of the training images
    labels_ = torch::tensor(labels, torch::kUInt8).to(torch::kInt64);
  }

  torch::data::Example<> get(std::size_t index) override {
    const auto i = static_cast<std::int64_t>(index);
    return {images_[i], labels_[i]};
  }
  torch::optional<std::size_t> size() const override { return labels_.size(0); }

  const torch::Tensor& images() const { return images_; }
  const torch::Tensor& labels() const { return labels_; }

 private:
  // The bytes after the header.
  static std::vector<std::uint8_t> read(const std::string& path, std::size_t header) {
    std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
    if (!file) throw std::runtime_error(path + ": cannot be opened");
    std::vector<std::uint8_t> bytes, chunk(1 << 20);
    for (int got; (got = gzread(file.get(), chunk.data(), chunk.size())) != 0;) {
      if (got < 0) throw std::runtime_error(path + ": is no gzip file, or a damaged one");
      bytes.insert(bytes.end(), chunk.begin(), chunk.begin() + got);
    }
    if (bytes.size() < header) throw std::runtime_error(path + ": is too short");
    bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(header));
    return bytes;
  }

  torch::Tensor images_, labels_;
};
