// A run's model that groups of workers train together, by layers (pipelined_model.h) or by parts of
// them (cut_model.h): this worker's part of it, and who has the others. Used from the thread that
// trains; collective in its group.
#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

#include "asup/checkpoint/cut.h"
#include "asup/checkpoint/reader.h"
#include "asup/parallel/grid.h"
#include "asup/sync/model/model_parts.h"

namespace asup::train {

class SpreadModel {
 public:
  virtual ~SpreadModel() = default;

  // Groups of workers that train one model together, and which one this worker is in.
  int groups() const { return grid_.shape().data; }
  int group() const { return grid_.place().data; }
  // Whether this worker tells what its group has done: the first does.
  bool tells() const { return grid_.place().pipeline == 0 && grid_.place().tensor == 0; }

  // Workers that have the same part of the model, and train it on other samples: for the replica.
  Communicator& replicas() { return grid_.data(); }
  // What is here, by its names in the model.
  virtual torch::nn::Module& module() = 0;
  sync::ModelParts parts() { return {&members(), copies_}; }
  // Of the module's parameters those that this worker writes into a checkpoint: of all workers, one
  // has each, or each part of one that is cut.
  std::vector<std::string> written();
  // Of the optimizer's state, by names that end with their parameters', what others write.
  void drop_copies(std::vector<sync::NamedTensor>& state) const;
  // Parameters of which this worker has a part.
  virtual checkpoint::Cuts cuts() const { return {}; }

  // Where all of a group draw the same random numbers: the generator's state becomes the first
  // one's.
  virtual void share_random() {}
  // The optimizer has stepped.
  virtual void stepped() {}

  // In a test: the scores of a batch, on the group's first worker where it is to have them, and
  // else on any one of it; elsewhere undefined.
  virtual torch::Tensor scores(const torch::Tensor& input, bool at_first) = 0;
  // The whole model's parameters and buffers on the first worker, elsewhere nothing.
  virtual checkpoint::TensorsByName gather() = 0;

 protected:
  // `workers`: all of the run, by their ranks in the job; outlives it. Collective.
  SpreadModel(Communicator& workers, parallel::GridShape shape) : grid_(workers, shape) {}

  // The workers of this group.
  virtual Communicator& members() = 0;

  // Constant after construction, of it and what derives from it.
  parallel::Grid grid_;
  std::vector<std::string> copies_;  // parameters here that count and are written elsewhere
};

}  // namespace asup::train
