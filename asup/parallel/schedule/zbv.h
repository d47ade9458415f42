// ZBV (Qi et al. 2024, "Pipeline Parallelism with Controllable Memory"; in "Zero Bubble Pipeline
// Parallelism" as ZB-V): each rank has two chunks, placed as a V, so that the rank with the first
// stage has the last as well and backward can begin where forward began. With equal times of
// forward, input and weight, a step takes 3m+(p-1)/2 of them, at 1F1B's memory: each rank holds 2p
// activations of half its layers.
#pragma once

#include "asup/parallel/schedule/schedule.h"

namespace asup::parallel {

Schedule zbv(int rank, const PipelineSpec& spec);
int zbv_activations(int rank, const PipelineSpec& spec);

}  // namespace asup::parallel
