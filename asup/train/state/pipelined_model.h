// A run's model whose layers are spread over workers (`--pipeline`): this worker's part of it, and
// who has the others. Used from the thread that trains; collective in its group.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

#include "asup/checkpoint/reader.h"
#include "asup/data/dataset.h"
#include "asup/models/compute_path.h"
#include "asup/models/model.h"
#include "asup/parallel/grid.h"
#include "asup/parallel/pipeline/pipeline.h"
#include "asup/sync/model/model_parts.h"
#include "asup/train/config.h"

namespace asup::train {

// How many layers each stage has so that the slowest is as fast as can be, by what layers take
// here; the same on all workers. `sample`: as many samples as a worker computes at a time.
// Collective.
std::vector<int> measured_stages(Communicator& workers, const TrainConfig& config,
                                 models::Model& model, const models::ComputePath& path,
                                 const data::Batch& sample);

class PipelinedModel {
 public:
  // Layers of the model that others have are freed. `workers`: all of the run, by their ranks in
  // the job; outlives it. `stages`: how many layers each has; empty: as many each. `steps` were
  // done before. Collective.
  PipelinedModel(Communicator& workers, const TrainConfig& config,
                 std::shared_ptr<models::Model> model, const models::ComputePath& path,
                 std::vector<int> stages, std::int64_t steps);

  // Groups of workers that train one model together, and which one this worker is in.
  int groups() const { return grid_.shape().data; }
  int group() const { return grid_.place().data; }
  // Whether this worker tells what its group has done: the first does.
  bool tells() const { return grid_.place().pipeline == 0; }

  // Workers that have the same layers, and train them on other samples: for the replica.
  Communicator& replicas() { return grid_.data(); }
  // The layers that are here, by their names in the model.
  torch::nn::Module& module() { return pipeline_->module(); }
  sync::ModelParts parts();
  // Of the module's parameters those that this worker writes into a checkpoint: of all workers, one
  // has each.
  std::vector<std::string> written() const;
  // Of the optimizer's state, by names that end with their parameters', what others write.
  void drop_copies(std::vector<sync::NamedTensor>& state) const;

  // Forward and backward of the samples of this group; the sum of their losses times `weight`, with
  // labels smoothed, adds to the gradients. Returns the sum without it.
  double backward(const data::Batch& batch, double weight);
  // The optimizer has stepped.
  void stepped();

  // In a test: the scores of a batch, on the group's first worker where it is to have them, and
  // else on its last; elsewhere undefined.
  torch::Tensor scores(const torch::Tensor& input, bool at_first);
  // The whole model's parameters and buffers on the first worker, elsewhere nothing.
  checkpoint::TensorsByName gather();

  // "2 stages by 1f1b, 8 micro-batches: layers 0-2 on ranks 0, 1; layers 3-5 on ranks 2, 3".
  std::string describe() const;
  // Seconds that this worker has waited for the others of its group.
  double wait_seconds() const { return pipeline_->stats().wait_seconds; }
  // The share of steps in which workers have stood still, on the average. Collective, of all.
  double bubble();

 private:
  // Constant after construction.
  const TrainConfig config_;
  const models::ComputePath path_;
  Communicator& workers_;
  parallel::Grid grid_;
  const std::shared_ptr<models::Model> model_;
  std::unique_ptr<parallel::Pipeline> pipeline_;
  std::vector<std::string> copies_;
};

}  // namespace asup::train
