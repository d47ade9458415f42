// The models that `asup train` knows by name.
//
// A model is used from one thread at a time. Its first weights come from torch's generator:
// torch::manual_seed() before make_model() makes them the same again.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "asup/parallel/pipeline/layer.h"
namespace asup::parallel {
class TensorGroup;
}

namespace asup::models {

// Scores of which each rank of a tensor group has those of its part of the classes.
struct CutScores {
  const parallel::TensorGroup* group;
  std::int64_t classes;  // on all ranks together
};

class Model : public torch::nn::Module {
 public:
  // N x input_shape in, N x classes out: scores before softmax. Of text, N x T tokens in, T at most
  // the context, and N x T x classes out: scores of the token that follows each of them.
  virtual torch::Tensor forward(torch::Tensor input) = 0;

  // Where the last layer is cut over a tensor group: how, and then forward_part() gives this rank's
  // part of the scores, which forward() gathers.
  virtual std::optional<CutScores> cut_scores() const { return std::nullopt; }
  virtual torch::Tensor forward_part(torch::Tensor input) { return forward(std::move(input)); }

  // Whether weight decay is for matrices, and not for biases and norms, which have one dimension.
  virtual bool decays_matrices_alone() const { return false; }

  // The model as layers that follow each other, of which the stages of a pipeline are cut; none
  // where it is not such a sequence. The last one gives what forward_part() does. They refer to the
  // model, which must outlive them.
  virtual std::vector<parallel::Layer> layers() { return {}; }
};

// How a ResNet begins.
enum class Stem {
  automatic,  // small up to 64 pixels
  imagenet,   // 7x7 convolution with stride 2, then max pooling: a quarter of the size
  small       // 3x3 convolution that keeps the size
};

struct ModelOptions {
  // C, H, W; mlp takes any shape and flattens it; of text, the context: tokens of a sample
  std::vector<std::int64_t> input_shape{1, 28, 28};
  int classes = 10;        // of text, the vocabulary
  std::int64_t width = 0;  // mlp: units of a hidden layer; cnn: channels of the first; 0: usual
  std::int64_t depth = 0;  // mlp: hidden layers (matrices: one more); 0: usual
  Stem stem = Stem::automatic;      // resnets
  bool zero_init_residual = false;  // resnets: each block begins as the identity
  bool text = false;                // inputs are tokens
  std::int64_t heads = 0;           // gpt: of attention; 0: usual
  double dropout = 0;               // gpt, lstm: share of activations that training leaves out
  // Ranks that compute the model together, each with a part of its layers; null: this one alone.
  const parallel::TensorGroup* tensor = nullptr;
};

struct ModelInfo {
  const char* name;
  const char* description;
  // Which of ModelOptions it heeds.
  bool width = false, depth = false, stem = false, heads = false, dropout = false;
  bool text = false;        // it takes text, and no images
  bool batch_norm = false;  // it has BatchNorm layers
};

// Makes a layer that normalises so many channels, in the place of torch's BatchNorm2d.
using MakeNorm = std::function<torch::nn::AnyModule(std::int64_t channels)>;

std::span<const ModelInfo> models();

// Throws BadInput where the model cannot be cut over a tensor group of so many ranks.
void require_parts(const std::string& name, const ModelOptions& options, int ranks);

// A name of models(), or a library of the user's own (plugin.h). Throws BadInput for another name
// (and suggests the nearest), or options that the model cannot be built with. `make_norm` is for
// models that have BatchNorm by their ModelInfo.
std::shared_ptr<Model> make_model(const std::string& name, const ModelOptions& options,
                                  const MakeNorm& make_norm = {});

}  // namespace asup::models
