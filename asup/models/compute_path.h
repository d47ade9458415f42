// How a model is computed fastest on this machine: by which implementation of convolution, with
// images in which order in memory, in which precision.
//
// torch computes CPU convolutions by oneDNN or by its own kernels, and a flag decides which at each
// call, forward or backward. Neither always wins: on aarch64 oneDNN's forward is fast and its
// backward a reference loop. Numbers of 16 bits are several times faster where the processor has
// arithmetic for them, and slower elsewhere. All of it changes rounding, so all ranks of a job must
// use one path.
//
// The flag belongs to the process: measure, and hold scopes, from one thread at a time. Ranks that
// are threads of one process may share only the paths whose two passes agree (onednn, native).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "asup/data/dataset.h"
#include "asup/models/model.h"
#include "asup/precision/precision.h"

namespace asup::models {

enum class ConvolutionPath {
  onednn,         // both passes; what torch does by itself
  native,         // neither
  onednn_forward  // forward by oneDNN, backward by torch's own kernels
};

// "onednn", "native", "onednn-forward": as in flags, run folders and checkpoints.
std::string_view name_of(ConvolutionPath path);
// Throws BadInput for any other name.
ConvolutionPath convolution_path_from(const std::string& name);

enum class Pass { forward, backward };

// Sets the path for a pass, and puts back what was set before.
class ConvolutionScope {
 public:
  ConvolutionScope(ConvolutionPath path, Pass pass);
  ~ConvolutionScope();
  ConvolutionScope(const ConvolutionScope&) = delete;
  ConvolutionScope& operator=(const ConvolutionScope&) = delete;

 private:
  bool before_;
};

struct ComputePath {
  ConvolutionPath convolution = ConvolutionPath::onednn;
  // Images and weights of convolutions: all channels of a pixel together.
  bool channels_last = false;
  Precision precision = Precision::fp32;

  bool operator==(const ComputePath&) const = default;
};

// "native", "onednn channels-last bf16": as in run folders and checkpoints.
std::string name_of(const ComputePath& path);
// Throws BadInput for any other text.
ComputePath compute_path_from(const std::string& text);

// The model's weights of four dimensions lie so from now on; their values stay. Not while anything
// holds views of them.
void lay_out(Model& model, bool channels_last);
// Images, or a batch of anything else, as the path has them.
torch::Tensor laid_out(const torch::Tensor& input, const ComputePath& path);

// What a person has said; what is not said is measured.
struct WantedPath {
  std::optional<ConvolutionPath> convolution{};
  std::optional<bool> channels_last{};
  std::optional<Precision> precision{};
};

struct PathTime {
  ComputePath path;
  double seconds;  // of one forward and backward
};

struct ComputeChoice {
  ComputePath path;
  std::vector<PathTime> times;  // empty: there was nothing to choose

  // "computed by native (onednn 2.4× slower, onednn-forward 1.1× slower)". Where another
  // precision than that of the choice is faster, it says so.
  std::string describe() const;
};

// Those that a model could be computed by where it is, in the order of preference, as far as they
// are wanted; then those of fp32, where another precision is wanted, to be compared with.
std::vector<ComputePath> paths_for(const Model& model, const WantedPath& wanted);

// The first wanted one that no other is clearly faster than. Times forward and backward of the
// sample by each path, in about `budget_seconds`; of a model too slow for that, on fewer of the
// samples. A path by which the model cannot be computed is left out, but for the first. Parameters,
// gradients, buffers and the random generator are afterwards as before, but for strides of weights;
// hooks where gradients are added up (a replica's) are not called. Where there is one path alone,
// nothing is timed.
ComputeChoice measure_compute_path(Model& model, const data::Batch& sample,
                                   const WantedPath& wanted = {}, double budget_seconds = 1.0);

}  // namespace asup::models
