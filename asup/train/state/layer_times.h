// How long the layers of a model take here, so that a pipeline can be cut where its stages take as
// long as each other. Used from the thread that trains.
#pragma once

#include <torch/torch.h>

#include <vector>

#include "asup/collective/communicator.h"
#include "asup/parallel/cut/stage_cut.h"
#include "asup/parallel/grid.h"
#include "asup/parallel/pipeline/layer.h"

namespace asup::train {

// Forward and backward of each layer, on this input of the first; takes half a second at least. The
// module's parameters and buffers and the random generator are afterwards as before, and there are
// no gradients. `tensor`: of the ranks that compute the layers together. Collective in it.
std::vector<parallel::LayerCost> time_layers(Communicator& tensor, torch::nn::Module& module,
                                             const std::vector<parallel::Layer>& layers,
                                             const torch::Tensor& input);

// How many layers each stage has so that the slowest is as fast as can be: by the first worker's
// times, and by how fast each of them is beside it. The same on all. Collective.
std::vector<int> fastest_cut(Communicator& workers, const parallel::GridShape& shape,
                             const std::vector<parallel::LayerCost>& times,
                             const parallel::PipelineSchedule& schedule,
                             const parallel::PipelineSpec& spec);

}  // namespace asup::train
