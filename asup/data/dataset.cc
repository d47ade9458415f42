#include "asup/data/dataset.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "asup/base/error.h"
#include "asup/base/suggest.h"
#include "asup/data/augment.h"
#include "asup/data/cifar.h"
#include "asup/data/image_dataset.h"
#include "asup/data/image_files_dataset.h"
#include "asup/data/load_plugin.h"
#include "asup/data/mixup.h"
#include "asup/data/mnist.h"
#include "asup/data/plugin_dataset.h"
#include "asup/data/synthetic.h"
#include "asup/data/text/text_dataset.h"

namespace asup::data {
namespace {

constexpr DatasetInfo kDatasets[] = {
    {"fashion-mnist", "70,000 grey 28 x 28 pictures of clothes in 10 classes (Debian's package)"},
    {"synthetic", "made-up images of any size, number and classes, for benchmarks and tests"},
};

constexpr const char* kFashionMnist = "/usr/share/datasets/fashion-mnist";

// Of the training images; a test measures the first again.
Normalisation fashion_mnist_normalisation() { return {{0.2860}, {0.3530}}; }
Normalisation cifar10_normalisation() {
  return {{0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616}};
}

// Throws BadInput for one of other images.
std::unique_ptr<Dataset> normalised(const std::string& name, Images images,
                                    const Normalisation& normalisation) {
  const auto channels = static_cast<std::size_t>(images.channels);
  require(normalisation.mean.size() == channels && normalisation.deviation.size() == channels,
          "{} has images of {} channels, which cannot be normalised as images of {}", name,
          images.channels, normalisation.mean.size());
  return make_image_dataset(name, std::move(images), normalisation);
}

std::unique_ptr<Dataset> open_fashion_mnist(Split split, const DatasetOptions& options) {
  std::filesystem::path folder = options.fashion_mnist_folder;
  if (folder.empty()) {
    const char* variable = std::getenv("ASUP_FASHION_MNIST");
    folder = variable && *variable ? variable : kFashionMnist;
  }
  require(is_mnist_folder(folder),
          "Fashion-MNIST is not in {}: install it with `apt-get install dataset-fashion-mnist`, or "
          "set ASUP_FASHION_MNIST to the folder with its four .gz files",
          folder.string());
  return normalised("fashion-mnist", read_mnist(folder, split, 10),
                    options.normalisation.value_or(fashion_mnist_normalisation()));
}

// Nobody knows these images' mean beforehand: the training images say.
std::unique_ptr<Dataset> open_mnist(const std::filesystem::path& folder, Split split,
                                    const DatasetOptions& options) {
  const int classes = options.classes;
  Images images = read_mnist(folder, split, classes);
  if (options.normalisation)
    return normalised(folder.string(), std::move(images), *options.normalisation);
  const auto normalisation = measure_normalisation(
      split == Split::train ? images : read_mnist(folder, Split::train, classes));
  return normalised(folder.string(), std::move(images), normalisation);
}

std::unique_ptr<Dataset> open_folder(const std::filesystem::path& folder, Split split,
                                     const DatasetOptions& options) {
  require(std::filesystem::is_directory(folder),
          "{} is a file; give the folder that holds the unpacked dataset", folder.string());
  if (is_mnist_folder(folder)) return open_mnist(folder, split, options);
  const auto cifar = find_cifar10(folder);
  require(!cifar.empty(),
          "{} holds no dataset that is understood: neither a folder train/ with a folder for each "
          "class (images), nor train-000000.tar (shards), train-images-idx3-ubyte[.gz] (MNIST "
          "format) or data_batch_1.bin (CIFAR-10, binary version)",
          folder.string());
  return normalised(folder.string(), read_cifar10(cifar, split),
                    options.normalisation.value_or(cifar10_normalisation()));
}

// It stands for the same whatever folders are beside the program.
bool is_name(const std::string& name) {
  return is_text(name) || is_plugin(name) ||
         std::any_of(std::begin(kDatasets), std::end(kDatasets),
                     [&](const DatasetInfo& info) { return name == info.name; });
}

std::unique_ptr<Dataset> open_plain(const std::string& name, Split split,
                                    const DatasetOptions& options) {
  if (name == "fashion-mnist") return open_fashion_mnist(split, options);
  if (is_text(name)) return open_text(name, split, options.text, options.seed);
  if (is_plugin(name)) return open_plugin_dataset(name, split, options);
  if (name == "synthetic") return make_synthetic(options.synthetic, options.seed, split);
  std::error_code error;
  if (std::filesystem::exists(name, error)) return open_folder(name, split, options);
  std::vector<std::string> known;
  for (const DatasetInfo& info : kDatasets) known.emplace_back(info.name);
  throw BadInput(
      fmt::format("'{}' is neither a dataset ({}, text:PATH) nor a folder that exists (of images, "
                  "or in MNIST or CIFAR-10 "
                  "binary format){}",
                  name, fmt::join(known, ", "), did_you_mean(name, known)));
}

}  // namespace

Batch Dataset::get(std::span<const std::int64_t> indices, std::uint64_t epoch) const {
  for (const std::int64_t index : indices)
    check(index >= 0 && static_cast<std::size_t>(index) < size(), "{} has no sample {}, only {}",
          name(), index, size());
  const Batch batch = assemble(indices, epoch);
  return page_locked_ ? Batch{batch.input.pin_memory(), batch.target.pin_memory()} : batch;
}

torch::Tensor Dataset::blank(torch::IntArrayRef shape, torch::ScalarType type) const {
  return torch::empty(shape, torch::dtype(type).pinned_memory(page_locked_));
}

std::span<const DatasetInfo> datasets() { return kDatasets; }

std::unique_ptr<Dataset> open_dataset(const std::string& name_or_path, Split split,
                                      const DatasetOptions& options) {
  const bool trains = split == Split::train;
  std::unique_ptr<Dataset> dataset;
  const auto place = is_name(name_or_path) ? std::nullopt : find_image_files(name_or_path);
  if (place) {
    dataset = open_image_files(*place, split, options);  // augments images as it decodes them
  } else {
    require(options.image_size == 0,
            "{} is no folder of image files, which can be resized. Leave image-size out",
            name_or_path);
    dataset = open_plain(name_or_path, split, options);
    if (trains && options.augment.any_of_images())
      dataset = make_augmented(std::move(dataset), options.augment, options.seed);
  }
  if (!trains || options.augment.mixup == 0) return dataset;
  return make_mixed(std::move(dataset), options.augment.mixup, options.seed);
}

}  // namespace asup::data
