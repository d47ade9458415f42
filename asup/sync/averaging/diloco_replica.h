// DiLoCo: workers step on their own for H steps; what they have moved by then, on average, is the
// gradient of an outer optimizer, Nesterov's momentum, which moves the model that all share.
//
//   d_i = g - x_i         g: the shared model, x_i: worker i's
//   d = mean of d_i       the exchange
//   v <- mu v + d
//   g <- g - lr (d + mu v)
//   x_i <- g
//
// In fragments, the model is cut into F parts of one size; each is exchanged every H steps, H / F
// steps after the one before, so that the link is used evenly. Overlapped, an exchange takes place
// beside the next steps; when it is due, workers go on from the middle between what they have and
// the shared model, so that the steps since are not lost: x_i <- (x_i + g) / 2.
//
// Sparse, only the largest numbers of the differences travel, in two bits each; what does not is
// kept by the worker and fades:
//
//   m_i <- 0.95 m_i + d_i,  c_i = the largest of m_i in two bits,  m_i <- m_i - c_i,  d = mean of
//   c_i
//
// A. Douillard et al., "DiLoCo: distributed low-communication training of language models", 2023,
// arXiv:2311.08105; fragments and overlap: "Streaming DiLoCo with overlapping communication", 2025,
// arXiv:2501.18512; sparse: A. Sarfi et al., "Communication efficient LLM pre-training with
// SparseLoCo", 2025, arXiv:2508.15706.
//
// Memory: three copies of the model: g, v, and what is exchanged; with bf16 half of one more,
// sparse, or in a code that keeps what is lost, two more. The optimizer's state is each worker's
// own. See local_update_replica.h for what else differs from all-reduce.
#pragma once

#include <memory>

#include "asup/base/clock.h"
#include "asup/collective/communicator.h"
#include "asup/kernels/code.h"
#include "asup/sync/averaging/local_update_replica.h"

namespace asup {

struct DilocoOptions {
  std::int64_t every = 100;  // H: steps between two exchanges of one fragment
  double outer_lr = 0.7;
  double outer_momentum = 0.9;
  std::int64_t overlap = 0;    // an exchange takes so many steps' time; 0: workers wait for it
  std::int64_t fragments = 1;  // no more than `every`
  bool in_bf16 = false;        // differences travel as bf16,
  kernels::Code code = kernels::Code::none;  // or in a code,
  double density = 0;                        // or only this share of them, sparse; 0: all
  Seconds jitter{0};                         // an exchange is put off by up to so much, at random
};

// synchronize() ends the round for all fragments: what is under way is applied, then all that has
// moved since is exchanged as at the end of a round; sparse, or in a code that keeps what is lost,
// it is exchanged whole. What was kept is not. As make_all_reduce_replica() otherwise. Collective.
std::unique_ptr<sync::LocalUpdateReplica> make_diloco_replica(Communicator& communicator,
                                                              torch::nn::Module& module,
                                                              torch::optim::Optimizer& optimizer,
                                                              const DilocoOptions& options = {});

}  // namespace asup
