// What the layers of a model take here, in time and memory, so that a pipeline can be cut where its
// stages take as long as each other and fit. Used from the thread that trains.
#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

#include "asup/collective/communicator.h"
#include "asup/collective/cost/rates.h"
#include "asup/net/membership/roster.h"
#include "asup/parallel/cut/stage_cut.h"
#include "asup/parallel/grid.h"
#include "asup/parallel/pipeline/layer.h"

namespace asup::train {

// Of each layer, on this input of the first: how long forward and backward take, the bytes of its
// output, of what forward leaves until backward, and of its parameters times `copies`. Takes half a
// second at least. The module's parameters and buffers and the random generator are afterwards as
// before, and there are no gradients. `tensor`: of the ranks that compute the layers together.
// Collective in it.
std::vector<parallel::LayerCost> time_layers(Communicator& tensor, torch::nn::Module& module,
                                             const std::vector<parallel::Layer>& layers,
                                             const torch::Tensor& input, double copies);

// Between the stages of a pipeline and the next, and from the last to the first; `hosts`: of all
// workers. One where all are alike.
std::vector<parallel::LinkRate> links_of(const collective::Rates& rates,
                                         const std::vector<net::HostId>& hosts,
                                         const parallel::GridShape& shape);

// The same on all workers: what the first one has measured, and how fast those of each stage are
// beside it. `problem`: its layers are what this worker has measured, and it has a rank for all;
// the rest is the same on all workers. Collective.
parallel::CutProblem of_all_workers(Communicator& workers, const parallel::GridShape& shape,
                                    parallel::CutProblem problem);

// How many layers each stage has so that the slowest is as fast as can be. Throws BadInput where
// nothing fits the memory.
std::vector<int> fastest_cut(const parallel::CutProblem& problem,
                             const parallel::PipelineSchedule& schedule,
                             const parallel::PipelineSpec& spec);

}  // namespace asup::train
