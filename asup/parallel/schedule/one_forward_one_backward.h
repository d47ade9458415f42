// 1F1B (PipeDream-Flush; Narayanan et al. 2021): after as many forwards as there are ranks behind,
// a rank does one forward and one backward in turn. The bubble is GPipe's, (p-1)/(m+p-1), but rank
// r holds the activations of p-r micro-batches alone.
#pragma once

#include "asup/parallel/schedule/schedule.h"

namespace asup::parallel {

Schedule one_forward_one_backward(int rank, const PipelineSpec& spec);
int one_forward_one_backward_activations(int rank, const PipelineSpec& spec);

}  // namespace asup::parallel
