// A pipeline that never runs empty (schedule/stream.h): while the last micro-batches of a batch
// come back, those of the next go forward. Asynchronous model parallelism: no rank waits for an
// update.
//
//   auto make_model = [] { return torch::nn::Sequential(…); };  // the same on all ranks
//   asup::parallel::StreamingPipeline pipeline(job, make_model, loss, {.micro_batches = 8});
//   torch::optim::SGD optimizer(pipeline.parameters(), 0.1);    // of this rank's layers
//   for (…) pipeline.step(input, target, optimizer);
//   double loss = pipeline.settle(optimizer);                   // before a test, saving, the end
//
// Batch k is computed, forward and backward, with the weights that the updates of all batches but
// the last one, k-1, have made: w(k+1) = w(k) - update(gradient of batch k at w(k-1)). The first of
// a stretch, after settle(), has all of them. So a run is the same to rounding however fast its
// ranks are; what the delay costs is best met with a smaller learning rate or a warm-up.
//
// Weights that stages of several ranks share, as GPT-2's embedding and its head do, are two updates
// late: their gradients are added up beside the next batch.
//
// A rank has its layers' weights three times: as the optimizer knows them, and those of the two
// batches that are under way. So the model is made three times, of which the first has the first
// weights; BatchNorm's statistics and other buffers are one. Used from the thread that trains;
// messages travel beside it.
#pragma once

#include <memory>

#include "asup/parallel/pipeline/pipeline.h"

namespace asup::parallel {

// A model and its layers, in order.
struct LayeredModel {
  std::shared_ptr<torch::nn::Module> module;
  std::vector<Layer> layers;

  LayeredModel(torch::nn::Sequential model) : module(model.ptr()), layers(layers_of(model)) {}
  LayeredModel(std::shared_ptr<torch::nn::Module> model, std::vector<Layer> its_layers)
      : module(std::move(model)), layers(std::move(its_layers)) {}
};

class StreamingPipeline {
 public:
  using MakeModel = std::function<LayeredModel()>;

  // Options as of a Pipeline, but that the schedule is 1F1B's without end, whatever they name.
  // Throws BadInput for fewer micro-batches than there are ranks behind the first. The communicator
  // or the job must outlive the pipeline. Collective.
  StreamingPipeline(Communicator& communicator, const MakeModel& make, Pipeline::Loss loss,
                    PipelineOptions options = {});
  StreamingPipeline(Job& job, const MakeModel& make, Pipeline::Loss loss,
                    PipelineOptions options = {});
  ~StreamingPipeline();
  StreamingPipeline(const StreamingPipeline&) = delete;
  StreamingPipeline& operator=(const StreamingPipeline&) = delete;

  // A batch goes in, and those before it go on. Where all of a batch has come back, the optimizer
  // steps, with the learning rate that it had when the batch went in. Inputs and targets as for
  // Pipeline::step(); all micro-batches of a stretch are alike.
  void step(const torch::Tensor& input, const torch::Tensor& target,
            torch::optim::Optimizer& optimizer);
  // All batches come back. Returns the mean of their losses since the last time, on all ranks.
  // Collective.
  double settle(torch::optim::Optimizer& optimizer);

  // Of this rank's layers, after settle() those that all batches have made.
  std::vector<torch::Tensor> parameters();
  torch::nn::Module& module();
  // As Pipeline's. needs: settle() was the last call
  torch::Tensor forward(const torch::Tensor& input);
  std::map<std::string, torch::Tensor> gather();
  PipelineStats stats() const;
  std::string describe() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace asup::parallel
