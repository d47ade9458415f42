// Local SGD: workers step on their own, and every k steps all models become their mean.
//
// Models are weighted by the samples that each worker has seen since the last merge
// (describe_batch(); alike where it is not called). With k = 1 and SGD, with momentum or without, n
// workers with parts of a batch do what all-reduce does.
//
// S. U. Stich, "Local SGD converges fast and communicates little", ICLR 2019, arXiv:1805.09767;
// post-local SGD (`local_after`): T. Lin et al., "Don't use large mini-batches, use local SGD",
// ICLR 2020, arXiv:1808.07217.
//
// In a code, what travels is not the models but what they differ by from the last merge, which is
// little; all have the same bits afterwards. The first merge is of whole models, and so is one
// after some have missed the last. The optimizer's state, which has no such past, travels as bf16:
// a second moment that a coarser code has as zero would do harm.
//
// Memory: a copy of the model, and during a merge one of the optimizer's state, where that is
// averaged; in a code one more, and two where it keeps what is lost. See local_update_replica.h for
// what else differs from all-reduce.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "asup/base/clock.h"
#include "asup/collective/communicator.h"
#include "asup/config/value.h"
#include "asup/kernels/code.h"
#include "asup/sync/averaging/adaptive_interval.h"
#include "asup/sync/averaging/local_update_replica.h"

namespace asup {

// What becomes of the optimizer's state (momentum, Adam's moments) when models are merged.
enum class MergeState {
  average,  // as models do; travels with them
  keep,     // each worker keeps its own
  reset     // as before the first step
};

constexpr auto names_of(MergeState) {
  using enum MergeState;
  return std::to_array<config::Named<MergeState>>(
      {{"average", average}, {"keep", keep}, {"reset", reset}});
}

struct LocalOptions {
  std::int64_t every = 8;  // steps; 0: models are merged by synchronize() alone
  // Instead of `every`. Wants describe_batch().
  std::optional<AdaptiveIntervalOptions> adaptive{};
  std::int64_t local_after = 0;  // so many steps first are followed by a merge each
  MergeState state = MergeState::average;
  kernels::Code code =
      kernels::Code::none;  // what models differ by from the last merge travels in it
  Seconds jitter{0};        // a merge is put off by up to so much, at random
  std::string observed{};   // what Replica::observed() said before
};

// synchronize() is a merge, and a round begins anew after it. `local_after` counts from when the
// replica is made. With `every` = 0, workers may have
// taken different numbers of steps when they call it. As make_all_reduce_replica() otherwise.
// Collective.
std::unique_ptr<sync::LocalUpdateReplica> make_local_replica(Communicator& communicator,
                                                             torch::nn::Module& module,
                                                             torch::optim::Optimizer& optimizer,
                                                             const LocalOptions& options = {});

}  // namespace asup
