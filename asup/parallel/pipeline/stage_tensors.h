// Whose tensors of a model are: each rank of a pipeline has those of its stages and lets go of the
// others. Used from the thread that trains.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

#include "asup/parallel/pipeline/layer.h"
#include "asup/parallel/schedule/schedule.h"

namespace asup::parallel {

// Where each stage begins: the first layer of each, and the number of layers.
using Cut = std::vector<std::size_t>;

// So that the dearest stage costs least; each has a layer at least. needs: as many layers
Cut cut_evenly(const std::vector<double>& costs, std::size_t stages);

// Those of the model that this rank has, by their names there. Its mode, training or evaluation, is
// the model's.
class OwnTensors : public torch::nn::Module {
 public:
  explicit OwnTensors(std::shared_ptr<torch::nn::Module> model) : model_(std::move(model)) {}

  void add_parameter(const std::string& name, const torch::Tensor& tensor);
  void add_buffer(const std::string& name, const torch::Tensor& tensor);
  void train(bool on = true) override;

 private:
  Module& home_of(const std::string& name, std::string& last);

  const std::shared_ptr<torch::nn::Module> model_;
};

// A tensor of the model, under the first of its names.
struct StageTensor {
  std::string name;
  torch::Tensor tensor;  // empty on ranks that do not have it
  std::vector<std::int64_t> shape;
  torch::ScalarType type = torch::kFloat32;
  bool is_parameter = true;
  std::vector<int> stages;  // that use it, ascending
  std::vector<int> ranks;   // the same

  bool is_on(int rank) const;
  // Several ranks have it, and keep it equal.
  bool is_shared() const { return ranks.size() > 1; }
};

class StageTensors {
 public:
  // Throws BadInput for a parameter that no layer uses, and for one that a layer names and the
  // model does not have.
  StageTensors(const torch::nn::Module& model, const std::vector<Layer>& layers, const Cut& cut,
               const PipelineSpec& spec);

  // All of the model's, in its order.
  const std::vector<StageTensor>& all() const { return all_; }
  std::vector<torch::Tensor> parameters_of(int stage) const { return of(stage, true); }
  std::vector<torch::Tensor> buffers_of(int stage) const { return of(stage, false); }

  // Others' memory is freed, and nobody learns them here.
  void keep_only(int rank);

 private:
  std::vector<torch::Tensor> of(int stage, bool parameters) const;

  std::vector<StageTensor> all_;
};

}  // namespace asup::parallel
