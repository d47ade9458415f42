// 1F1B that does not end with a batch: while the last micro-batches of one come back, those of the
// next go forward, and no rank stands still but in the first batch of a stretch and after its last.
// What this costs is one update: a batch is computed with the weights before the last update but
// one, and a rank holds the weights of two batches (PipeDream-2BW; Narayanan et al.,
// "Memory-efficient pipeline-parallel DNN training", 2021, https://arxiv.org/abs/2006.09503).
//
// Micro-batches are counted through a stretch of batches: batch b has those from b·m on. Pure
// functions; safe from any thread.
#pragma once

#include "asup/parallel/schedule/schedule.h"

namespace asup::parallel {

// Throws BadInput for stages that lie otherwise than in a line, and for fewer micro-batches than
// keep to the weights of two batches.
void require_streams(const PipelineSpec& spec);

// What the rank computes once batch `batch` of the stretch has come: all that waits for no later
// one. Over several batches, with the rest, it is 1F1B of all their micro-batches.
Schedule stream_of_batch(int rank, const PipelineSpec& spec, int batch);
// What is left to be computed when no batch follows so many.
Schedule stream_rest(int rank, const PipelineSpec& spec, int batches);

}  // namespace asup::parallel
