// What models are trained on, labelled images or text, and how to find it by name or path.
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

class Tokenizer;

struct Batch {
  torch::Tensor input;  // float32, N x C x H x W, normalised; of text: int64, N x context
  // int64, N; of text: N x context; where samples are mixed, float32, N x classes: shares
  torch::Tensor target;
};

// What a text's samples are made of.
struct Text {
  std::int64_t tokens = 0;               // of a sample
  double bytes_per_token = 1;            // on average, of this split
  const Tokenizer* tokenizer = nullptr;  // lives as long as the data set
};

class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual std::size_t size() const = 0;
  virtual std::vector<std::int64_t> input_shape() const = 0;  // C, H, W; of text: context
  virtual int classes() const = 0;                            // of text: the vocabulary
  virtual std::string name() const = 0;
  // What pixels were taken by: (pixel / 255 - mean) / deviation, by channel. Empty: by nothing.
  virtual Normalisation normalisation() const { return {}; }
  // Null where samples are no text.
  virtual const Text* text() const { return nullptr; }
  virtual std::vector<std::string> class_names() const { return {}; }  // empty: not known
  // The class of each sample, told without reading any. Empty: not known, or samples have none.
  virtual std::vector<std::int64_t> labels() const { return {}; }
  // Samples met so far that cannot be read, ascending. Another is given in the place of each.
  virtual std::vector<std::int64_t> broken() const { return {}; }
  // How it was opened, where a person should know: "… was measured on 500 of 50,000 images".
  virtual std::string note() const { return ""; }

  // The samples in the order asked for. `epoch` matters only where samples vary from epoch to epoch
  // (augmentation): the same index and epoch give the same bits on whichever rank asks. No indices
  // give a batch of zero samples. Throws Error for an index out of range.
  Batch get(std::span<const std::int64_t> indices, std::uint64_t epoch = 0) const;

  // For a GPU, which copies batches from such memory beside computing. Before others call get().
  void set_page_locked(bool locked) { page_locked_ = locked; }

 protected:
  // For a part of a batch, in memory of the kind that is asked for: filled there, it is not copied.
  torch::Tensor blank(torch::IntArrayRef shape, torch::ScalarType type = torch::kFloat32) const;

 private:
  // needs: indices in range.
  virtual Batch assemble(std::span<const std::int64_t> indices, std::uint64_t epoch) const = 0;

  bool page_locked_ = false;
};

// Images of one class share a smooth random pattern under noise, which a model can learn. They are
// made when asked for and take no memory.
struct SyntheticOptions {
  std::int64_t train_size = 8192;
  std::int64_t test_size = 1024;
  std::vector<std::int64_t> shape{1, 28, 28};  // C, H, W
  int classes = 10;
  double noise = 1.0;  // standard deviation; a pattern's own is about 1
};

// Random changes of colours, in a random order: factors of 1 ± so much, and of the hue, a shift of
// up to so many turns of the colour circle.
struct JitterOptions {
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;
  bool any() const { return brightness > 0 || contrast > 0 || saturation > 0 || hue > 0; }
};

// Random changes that leave a picture's meaning.
struct AugmentOptions {
  int shift = 0;           // by up to so many pixels each way
  bool flip = false;       // mirrored half of the time
  bool black = false;      // what a shift brings in is black; else the edge is repeated
  double crop = 0;         // of image files: a part of at least this share of the area; 0: all
  JitterOptions jitter{};  // colours
  int cutout = 0;          // a square of so many pixels is blanked out
  double mixup = 0;        // each sample is mixed with another, by shares from Beta(mixup, mixup)
  bool any_of_images() const {  // of each by itself: all but mixup
    return shift > 0 || flip || crop > 0 || jitter.any() || cutout > 0;
  }
};

// Of text (text/text_dataset.h).
struct TextOptions {
  std::int64_t context = 128;     // tokens of a sample
  double test_share = 0.1;        // of the text, at its end
  std::string tokenizer_model{};  // of SentencePiece; empty: bytes are the tokens
};

struct DatasetOptions {
  std::uint64_t seed = 0;  // of synthetic images and of augmentation
  SyntheticOptions synthetic{};
  AugmentOptions augment{};  // of the train split alone
  int classes = 10;          // of an MNIST-format folder, whose files do not say
  std::optional<Normalisation> normalisation{};  // of image files; none: that of their training set
  int image_size = 0;  // image files become squares of so many pixels; 0: they are of one size
  int threads = 0;     // that decode image files; 0: as many as there are cores
  std::string fashion_mnist_folder{};  // empty: $ASUP_FASHION_MNIST, else where Debian puts it
  TextOptions text{};
};

struct DatasetInfo {
  const char* name;
  const char* description;
};

// What open_dataset() understands besides paths.
std::span<const DatasetInfo> datasets();

// A name of datasets(), text:PATH, a library of the user's own (plugin.h), imagefolder:DIR or
// shards:DIR (image/files.h), or else the path of a folder: one of those, or in MNIST format
// (train-images-idx3-ubyte[.gz], …) or CIFAR-10 binary format (data_batch_1.bin, …).
// Throws BadInput that says what is wrong with the name or the file, and what to do.
std::unique_ptr<Dataset> open_dataset(const std::string& name_or_path, Split split,
                                      const DatasetOptions& options = {});

}  // namespace asup::data
