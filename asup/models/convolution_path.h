// Which implementation of convolution trains a model fastest on this machine.
//
// torch computes CPU convolutions by oneDNN or by its own kernels, and a flag decides which at each
// call, forward or backward. Neither always wins: on aarch64 oneDNN's forward is fast and its
// backward a reference loop. The choice changes rounding, so all ranks of a job must use one path.
//
// The flag belongs to the process: measure, and hold scopes, from one thread at a time. Ranks that
// are threads of one process may share only the paths whose two passes agree (onednn, native).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "asup/data/dataset.h"
#include "asup/models/model.h"

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

struct PathTime {
  ConvolutionPath path;
  double seconds;  // of one forward and backward
};

struct ConvolutionChoice {
  ConvolutionPath path = ConvolutionPath::onednn;
  std::vector<PathTime> times;  // empty: there was nothing to choose

  // "convolution path: native (onednn 2.4× slower, onednn-forward 1.1× slower)"
  std::string describe() const;
};

// Times forward and backward of the sample by each path, in about `budget_seconds`; of a model too
// slow for that, on fewer of the samples. Parameters, gradients, buffers and the random generator
// are afterwards as before, and hooks where gradients are added up (a replica's) are not called.
// Where the model has no convolution or torch no oneDNN, nothing is timed.
ConvolutionChoice measure_convolution_path(Model& model, const data::Batch& sample,
                                           double budget_seconds = 1.0);

}  // namespace asup::models
