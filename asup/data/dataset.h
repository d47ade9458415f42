// Labelled images held in memory, and how to find them by name or path.
//
// A Dataset never changes after it is opened: any number of threads may call it.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "asup/data/images.h"

namespace asup::data {

struct Batch {
  torch::Tensor input;   // float32, N x C x H x W, normalised
  torch::Tensor target;  // int64, N
};

class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual std::size_t size() const = 0;
  virtual std::vector<std::int64_t> input_shape() const = 0;  // C, H, W
  virtual int classes() const = 0;
  virtual std::string name() const = 0;
  // What pixels were taken by: (pixel / 255 - mean) / deviation, by channel. Empty: by nothing.
  virtual Normalisation normalisation() const { return {}; }

  // The samples in the order asked for. `epoch` matters only where samples vary from epoch to epoch
  // (augmentation): the same index and epoch give the same bits on whichever rank asks. No indices
  // give a batch of zero samples. Throws Error for an index out of range.
  Batch get(std::span<const std::int64_t> indices, std::uint64_t epoch = 0) const;

  // For a GPU, which copies batches from such memory beside computing. Before others call get().
  void set_page_locked(bool locked) { page_locked_ = locked; }

 private:
  // needs: indices in range.
  virtual Batch assemble(std::span<const std::int64_t> indices, std::uint64_t epoch) const = 0;

  bool page_locked_ = false;
};

enum class Split { train, test };

// Images of one class share a smooth random pattern under noise, which a model can learn. They are
// made when asked for and take no memory.
struct SyntheticOptions {
  std::int64_t train_size = 8192;
  std::int64_t test_size = 1024;
  std::vector<std::int64_t> shape{1, 28, 28};  // C, H, W
  int classes = 10;
  double noise = 1.0;  // standard deviation; a pattern's own is about 1
};

// Random changes that leave a picture's meaning: shifted by up to `shift` pixels each way (the edge
// is repeated), and mirrored half of the time.
struct AugmentOptions {
  int shift = 0;
  bool flip = false;
  bool any() const { return shift > 0 || flip; }
};

struct DatasetOptions {
  std::uint64_t seed = 0;  // of synthetic images and of augmentation
  SyntheticOptions synthetic{};
  AugmentOptions augment{};  // of the train split alone
  int classes = 10;          // of an MNIST-format folder, whose files do not say
  std::optional<Normalisation> normalisation{};  // of image files; none: that of their training set
  std::string fashion_mnist_folder{};  // empty: $ASUP_FASHION_MNIST, else where Debian puts it
};

struct DatasetInfo {
  const char* name;
  const char* description;
};

// What open_dataset() understands besides paths.
std::span<const DatasetInfo> datasets();

// A name of datasets(), a library of the user's own (plugin.h), or else the path of a folder in
// MNIST format (train-images-idx3-ubyte[.gz], …) or CIFAR-10 binary format (data_batch_1.bin, …).
// Throws BadInput that says what is wrong with the name or the file, and what to do.
std::unique_ptr<Dataset> open_dataset(const std::string& name_or_path, Split split,
                                      const DatasetOptions& options = {});

}  // namespace asup::data
