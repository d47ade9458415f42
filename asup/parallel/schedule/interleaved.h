// Interleaved 1F1B (Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on GPU
// Clusters Using Megatron-LM"): each rank has v chunks of the model, p stages apart, so that the
// pipeline fills v times as fast. The bubble is (p-1)/(vm+p-1), for v times the messages and some
// more activations.
//
// Micro-batches go through the chunks in groups of about as many as there are ranks: all of a group
// through the first chunk, then through the second, … The paper's groups are of exactly p, and need
// m to be a multiple of p. Here they are of p or more, as equal as can be, the larger ones first,
// for any m.
#pragma once

#include "asup/parallel/schedule/schedule.h"

namespace asup::parallel {

Schedule interleaved(int rank, const PipelineSpec& spec);
int interleaved_activations(int rank, const PipelineSpec& spec);

}  // namespace asup::parallel
