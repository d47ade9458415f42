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
  torch::Tensor input;   // float32, N x C x H x W, normalised; of text: int64, N x context
  torch::Tensor target;  // int64, N; of text: N x context
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

  // The samples in the order asked for. `epoch` matters only where samples vary from epoch to epoch
  // (augmentation): the same index and epoch give the same bits on whichever rank asks. No indices
  // give a batch of zero samples. Throws Error for an index out of range.
  Batch get(std::span<const std::int64_t> indices, std::uint64_t epoch = 0) const;

 private:
  // needs: indices in range.
  virtual Batch assemble(std::span<const std::int64_t> indices, std::uint64_t epoch) const = 0;
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
  std::string fashion_mnist_folder{};  // empty: $ASUP_FASHION_MNIST, else where Debian puts it
  TextOptions text{};
};

struct DatasetInfo {
  const char* name;
  const char* description;
};

// What open_dataset() understands besides paths.
std::span<const DatasetInfo> datasets();

// A name of datasets(), text:PATH, a library of the user's own (plugin.h), or else the path of a
// folder in MNIST format (train-images-idx3-ubyte[.gz], …) or CIFAR-10 binary format
// (data_batch_1.bin, …). Throws BadInput that says what is wrong with the name or the file, and
// what to do.
std::unique_ptr<Dataset> open_dataset(const std::string& name_or_path, Split split,
                                      const DatasetOptions& options = {});

}  // namespace asup::data
