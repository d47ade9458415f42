// ZB-H1 (Qi et al. 2023, "Zero Bubble Pipeline Parallelism"): 1F1B whose backward is split. What
// the rank before waits for, the gradient of the input, is computed at once; the gradient of the
// weights follows as much later as the rank is far from the first, and fills the bubble at the end.
// With equal times of forward, input and weight, a step takes 3m+p-1 of them, and 1F1B 3(m+p-1).
// Each rank holds the activations of p micro-batches, as the first does in 1F1B.
#pragma once

#include "asup/parallel/schedule/schedule.h"

namespace asup::parallel {

Schedule zb1p(int rank, const PipelineSpec& spec);
int zb1p_activations(int rank, const PipelineSpec& spec);

}  // namespace asup::parallel
