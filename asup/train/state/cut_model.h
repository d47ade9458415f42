// A run's model whose large layers are cut over workers (`--tensor`; docs/tensor_parallel.md).
#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>

#include "asup/data/dataset.h"
#include "asup/models/model.h"
#include "asup/parallel/tensor/tensor_group.h"
#include "asup/train/config.h"
#include "asup/train/state/spread_model.h"

namespace asup::train {

class CutModel final : public SpreadModel {
 public:
  // First weights are those of the whole model by torch's generator, which is alike on all workers.
  CutModel(Communicator& workers, const TrainConfig& config, const data::Dataset& dataset);

  const std::shared_ptr<models::Model>& model() const { return model_; }
  torch::nn::Module& module() override { return *model_; }
  checkpoint::Cuts cuts() const override;

  // Takes its part of these weights.
  void take(const torch::nn::Module& whole);

  void share_random() override;  // they leave out the same by dropout
  void stepped() override;
  torch::Tensor scores(const torch::Tensor& input, bool at_first) override;
  checkpoint::TensorsByName gather() override;

  std::int64_t parameters() const;  // numbers of the whole model that are trained
  // "2 ranks compute a model together: ranks 0-1; ranks 2-3".
  std::string describe() const;

 protected:
  Communicator& members() override { return grid_.tensor(); }

 private:
  // Constant after construction.
  const parallel::TensorGroup tensor_;  // on a communicator of its own
  const std::shared_ptr<models::Model> model_;
  std::vector<sync::NamedTensor> uncut_;
};

}  // namespace asup::train
