// A run's model that groups of workers train together (docs/model_parallel.md): stage after stage
// of its layers are on the workers of a pipeline, and of each large layer a part on those of a
// tensor group. This worker's part of it, and who has the others. Used from the thread that trains;
// collective in its group.
#pragma once

#include <torch/torch.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "asup/checkpoint/cut.h"
#include "asup/checkpoint/reader.h"
#include "asup/data/dataset.h"
#include "asup/models/compute_path.h"
#include "asup/models/model.h"
#include "asup/parallel/grid.h"
#include "asup/parallel/pipeline/pipeline.h"
#include "asup/parallel/tensor/tensor_group.h"
#include "asup/parallel/tensor_cut.h"
#include "asup/sync/model/model_parts.h"
#include "asup/train/config.h"
#include "asup/train/step_hooks.h"

namespace asup::train {

// What this worker has of the model's parameters that are cut over the grid's tensor groups.
checkpoint::Cuts cuts_on_grid(const torch::nn::Module& model, const parallel::Grid& grid);

// What layers take here, of which stages are to be cut; the same on all workers. `sample`: as many
// samples as a worker computes at a time. `links`: of which messages are; empty: not known.
// Collective, of all workers.
parallel::CutProblem measured_layers(Communicator& workers, parallel::Grid& grid,
                                     const TrainConfig& config, models::Model& model,
                                     const models::ComputePath& path, const data::Batch& sample,
                                     std::vector<parallel::LinkRate> links, StepHooks& hooks);

class SpreadModel {
 public:
  // `hooks` are told of layers, and outlive it. `model`: made over the tensor group, where there is
  // one. Its layers that other stages have are freed. `stages`: how many layers each has; empty: as
  // many each. `steps` were done before. The grid outlives it. Collective.
  SpreadModel(parallel::Grid& grid, std::optional<parallel::TensorGroup> tensor,
              const TrainConfig& config, std::shared_ptr<models::Model> model,
              const models::ComputePath& path, std::vector<int> stages, std::int64_t steps,
              StepHooks& hooks);

  // Groups of workers that train one model together, and which one this worker is in.
  int groups() const { return grid_.shape().data; }
  int group() const { return grid_.place().data; }
  // Whether this worker tells what its group has done: the first does.
  bool tells() const { return grid_.place().pipeline == 0 && grid_.place().tensor == 0; }
  bool has_stages() const { return pipeline_ != nullptr; }

  // Workers that have the same part of the model, and train it on other samples: for the replica.
  Communicator& replicas() { return grid_.data(); }
  // What is here, by its names in the model.
  torch::nn::Module& module();
  sync::ModelParts parts() { return {&grid_.model(), copies_}; }
  // Of the module's parameters those that this worker writes into a checkpoint: of all workers, one
  // has each, or each part of one that is cut.
  std::vector<std::string> written();
  // Of the optimizer's state, by names that end with their parameters', what others write.
  void drop_copies(std::vector<sync::NamedTensor>& state) const;
  const checkpoint::Cuts& cuts() const { return cuts_; }

  // What all of a group draw is the same: the generator's state becomes the first one's.
  void share_random();
  // Forward and backward of the samples of this group through the stages; the sum of their losses
  // times `weight`, with labels smoothed, adds to the gradients. Returns the sum without it. needs:
  // has_stages()
  double backward(const data::Batch& batch, double weight);
  // The optimizer has stepped.
  void stepped();

  // In a test: the scores of a batch, on the group's first worker where it is to have them, and
  // else on any one of it; elsewhere undefined.
  torch::Tensor scores(const torch::Tensor& input, bool at_first);
  // The whole model's parameters and buffers on the first worker, elsewhere nothing.
  checkpoint::TensorsByName gather();

  // "2 stages by 1f1b, 8 micro-batches: layers 0-2 on ranks 0, 1; layers 3-5 on ranks 2, 3". needs:
  // has_stages()
  std::string describe_stages() const;
  // "2 ranks compute a model together: ranks 0-1; ranks 2-3"; empty where each has whole layers.
  std::string describe_tensor_groups() const;
  // In training, so far: seconds that this worker has waited for others of its group.
  double wait_seconds() const;
  // Bytes that it has sent to them.
  std::uint64_t bytes_moved() const;
  // What it has done in its stages. needs: has_stages()
  parallel::PipelineStats stats() const { return pipeline_->stats(); }
  // The share of steps in which it has stood still between its stages. needs: has_stages()
  double bubble() const;

 private:
  double tensor_wait_seconds() const { return tensor_ ? tensor_->wait_seconds() : 0; }
  void make_uncut_equal();
  checkpoint::TensorsByName own_tensors() const;

  // Constant after construction.
  parallel::Grid& grid_;
  const std::optional<parallel::TensorGroup> tensor_;  // none: layers are whole
  const TrainConfig config_;
  const models::ComputePath path_;
  const std::shared_ptr<models::Model> model_;
  const std::map<std::string, parallel::TensorCut> tensor_cuts_;  // by parameters' names
  const checkpoint::Cuts cuts_;
  std::unique_ptr<parallel::Pipeline> pipeline_;  // null: each worker has something of all layers
  std::vector<sync::NamedTensor> uncut_;          // the same on all of a tensor group
  std::vector<std::string> copies_;  // parameters here that count and are written elsewhere

  double waited_elsewhere_;  // of the tensor group's seconds: in tests, and before
};

}  // namespace asup::train
