// A stage of a pipeline as it computes: layers, and the micro-batches that are in it. Used from the
// thread that trains.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "asup/parallel/pipeline/layer.h"
#include "asup/parallel/pipeline/weight_gradients.h"

namespace asup::parallel {

// Of a micro-batch, from the last stage's output of it: what backward begins with. Called again
// where the forward is computed again.
using LossOfMicroBatch = std::function<torch::Tensor(const torch::Tensor& output, int micro_batch)>;

class Stage {
 public:
  struct Options {
    int number = 0;
    bool first = false, last = false;
    // Backward comes in two: of the input, and of the weights.
    bool splits_backward = false;
    // Activations are not kept, but computed again before backward (Chen et al., "Training deep
    // nets with sublinear memory cost", 2016, https://arxiv.org/abs/1604.06174). Buffers, such as
    // BatchNorm's statistics, learn from the first time alone.
    bool recompute = false;
    bool random = true;  // layers draw from torch's generator
    std::uint64_t seed = 0;
    torch::Device device = torch::kCPU;
  };

  // The tensors are those of the layers that this rank has.
  Stage(std::vector<Layer> layers, std::vector<torch::Tensor> parameters,
        std::vector<torch::Tensor> buffers, Options options);

  int number() const { return options_.number; }

  // A step begins, of so many before it.
  void begin(std::int64_t step, const LossOfMicroBatch& loss);
  // The output; of the last stage, the loss.
  torch::Tensor forward(int micro_batch, const torch::Tensor& input);
  // Gradients are added to those of the parameters. `gradient` is the output's, undefined at the
  // last stage; returns that of the input, undefined at the first. needs: forward()
  torch::Tensor backward(int micro_batch, const torch::Tensor& gradient);
  torch::Tensor backward_input(int micro_batch, const torch::Tensor& gradient);
  // needs: backward_input()
  void backward_weight(int micro_batch);

  // Layers alone, without a graph: for tests.
  torch::Tensor evaluate(const torch::Tensor& input);

 private:
  // A micro-batch between forward and the end of backward.
  struct Passage {
    torch::Tensor input, output;
    WeightGradientsPtr weights;
  };

  torch::Tensor through(const torch::Tensor& input);
  torch::Tensor compute(int micro_batch, const torch::Tensor& input,
                        const WeightGradientsPtr& weights);
  void backward_of_second_forward(int micro_batch, Passage& passage, const torch::Tensor& gradient);
  void say_what_does_not_split(const WeightGradients& weights);

  // Constant after construction.
  const std::vector<Layer> layers_;
  const std::vector<torch::Tensor> parameters_, buffers_;
  const Options options_;

  std::int64_t step_ = 0;
  LossOfMicroBatch loss_;
  std::map<int, Passage> passages_;  // by micro-batch
  bool said_ = false;
};

}  // namespace asup::parallel
