// GPipe (Huang et al. 2019): all micro-batches forward, then all back. The bubble is (p-1)/(m+p-1)
// of a step with p ranks and m micro-batches; activations of all m are held at once.
#pragma once

#include "asup/parallel/schedule/schedule.h"

namespace asup::parallel {

Schedule gpipe(int rank, const PipelineSpec& spec);
int gpipe_activations(int rank, const PipelineSpec& spec);

}  // namespace asup::parallel
