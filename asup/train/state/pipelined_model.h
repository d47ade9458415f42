// A run's model whose layers are spread over workers (`--pipeline`; docs/model_parallel.md).
#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

#include "asup/data/dataset.h"
#include "asup/models/compute_path.h"
#include "asup/models/model.h"
#include "asup/parallel/pipeline/pipeline.h"
#include "asup/train/config.h"
#include "asup/train/state/spread_model.h"

namespace asup::train {

// How many layers each stage has so that the slowest is as fast as can be, by what layers take
// here; the same on all workers. `sample`: as many samples as a worker computes at a time.
// Collective.
std::vector<int> measured_stages(Communicator& workers, const TrainConfig& config,
                                 models::Model& model, const models::ComputePath& path,
                                 const data::Batch& sample);

class PipelinedModel final : public SpreadModel {
 public:
  // Layers of the model that others have are freed. `workers`: all of the run, by their ranks in
  // the job; outlives it. `stages`: how many layers each has; empty: as many each. `steps` were
  // done before. Collective.
  PipelinedModel(Communicator& workers, const TrainConfig& config,
                 std::shared_ptr<models::Model> model, const models::ComputePath& path,
                 std::vector<int> stages, std::int64_t steps);

  torch::nn::Module& module() override { return pipeline_->module(); }

  // Forward and backward of the samples of this group; the sum of their losses times `weight`, with
  // labels smoothed, adds to the gradients. Returns the sum without it.
  double backward(const data::Batch& batch, double weight);
  void stepped() override;

  // On the group's last worker, where the first is not to have them.
  torch::Tensor scores(const torch::Tensor& input, bool at_first) override;
  checkpoint::TensorsByName gather() override;

  // "2 stages by 1f1b, 8 micro-batches: layers 0-2 on ranks 0, 1; layers 3-5 on ranks 2, 3".
  std::string describe() const;
  // Seconds that this worker has waited for the others of its group.
  double wait_seconds() const { return pipeline_->stats().wait_seconds; }
  // The share of steps in which workers have stood still, on the average. Collective, of all.
  double bubble();

 protected:
  Communicator& members() override { return grid_.pipeline(); }

 private:
  // Constant after construction.
  const TrainConfig config_;
  const models::ComputePath path_;
  Communicator& workers_;
  const std::shared_ptr<models::Model> model_;
  std::unique_ptr<parallel::Pipeline> pipeline_;
};

}  // namespace asup::train
