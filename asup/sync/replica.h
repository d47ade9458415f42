// Keeps one worker's copy of a model's parameters in step with the other workers'.
//
// A Replica is used from the thread that trains. What it exchanges travels beside backward.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "asup/sync/model/tensors.h"

namespace asup {

enum class StepResult {
  applied,
  // Gradients were infinite or NaN, and have moved nothing: on all ranks alike where they are
  // exchanged, else by this rank's own step.
  skipped
};

// Since the replica was made.
struct ReplicaStats {
  std::uint64_t steps = 0;
  double wait_seconds = 0;        // the training thread stood still for the exchange
  double exchange_seconds = 0;    // the exchange was under way, beside backward or not
  std::uint64_t bytes_moved = 0;  // by this rank
  // Where models differ between steps: how often they were averaged, wholly or in part, and how far
  // apart they were the last time that it was looked at: the root of the mean over ranks of
  // |x_i - mean|^2, by |mean|.
  std::uint64_t merges = 0;
  std::optional<double> consensus_distance{};
  // In samples: beyond batches so large, more samples hardly make a step better
  // (base/noise_scale.h). Where gradients are exchanged and ranks describe their batches, and on
  // servers that average several pushes, as it was last told here.
  std::optional<double> noise_scale{};
  // Steps whose gradients were infinite or NaN, and that were left out: all ranks' alike where
  // gradients are exchanged, else this rank's own. The last ones, without one between that was not;
  // and those of the last hundred steps.
  std::uint64_t skipped = 0, skipped_in_succession = 0, skipped_lately = 0;
};

// What a checkpoint keeps of a replica beside the model and the optimizer's state.
struct ReplicaState {
  std::vector<sync::NamedTensor> common;  // the same on all ranks
  std::vector<sync::NamedTensor> own;     // this rank's
  // This rank's, of which the mean over ranks counts: as many ranks get theirs back; of more, those
  // that were there get more of theirs, the others zeros; of fewer, each gets the mean.
  std::vector<sync::NamedTensor> parts{};
};

class Replica {
 public:
  virtual ~Replica() = default;

  // Applies the optimizer to this step's gradients. Where these are exchanged, that has ended when
  // backward() returns: they are final then, and may be read, clipped or dropped. Both throw
  // JobFailed, naming the ranks, when a peer was lost or late; no parameter has changed then.
  virtual StepResult step() = 0;

  // Exchanges gradients that no backward has: those that were only added up (NoSync), or put there
  // by hand, or of a rank without data. step() does it too. Collective.
  virtual void finish_exchange() = 0;

  // Between backward and step(): scales the gradients down so that the norm of all of them together
  // is at most `max_norm`, and returns what it was. Of the average over ranks, where gradients are
  // exchanged; of this rank's own, where models are. With servers it is the norm of the gradient
  // that an update applies, which is the average of those that go into it; what is returned is this
  // rank's own. Gradients that are not finite stay as they are. Collective where they are
  // exchanged.
  virtual double clip_grad_norm(double max_norm) = 0;
  // Whether that can be called. Else gradients are clipped before the exchange, as the options of
  // the strategy say.
  virtual bool clips_after_exchange() const { return true; }

  // Gradient accumulation: while false, backward only adds up locally; the next backward with true
  // exchanges the sum. NoSync below sets it for a scope.
  virtual void set_sync(bool sync) = 0;

  // What the next step() is of: samples, and the sum of their losses. Ranks are weighed by their
  // samples, whatever the way: gradients where these are exchanged, models where those are. Without
  // it, all steps count alike. Before the (last) backward() of the step, on all ranks or on none:
  // gradients are averaged while backward runs, and unequal batches that are described later are
  // refused. A loss that is not known by then may be told by a second call after backward().
  virtual void describe_batch(std::uint64_t samples, double loss) = 0;
  // Instead of it, where gradients are averaged over ranks and are weighed by their samples
  // already: of n ranks with N samples together, each divides the sum of its losses by N / n. They
  // are averaged as they are; the samples are what the noise scale is told in.
  virtual void describe_weighed_batch(std::uint64_t samples) { (void)samples; }

  // Makes the parameters equal on all ranks, where they differ between steps, and whole where each
  // rank keeps a part, for the end of training or another strategy. Training may go on from there.
  // Collective.
  virtual void synchronize() = 0;
  // Whether this rank has stepped since all had one model, so that its parameters may be its own,
  // or its part alone.
  virtual bool has_moved() const = 0;
  // Whether parameters may differ between ranks now. Collective, and the same on all.
  virtual bool models_differ() = 0;

  // Makes BatchNorm statistics and other buffers equal on all ranks (the average for floating
  // points, rank 0's for others). Collective.
  virtual void average_buffers() = 0;

  // For a test: while `use` runs, parameters and buffers are the mean over ranks; then each rank
  // has its own again, bit for bit, also when it throws. Collective.
  virtual void with_mean_model(const std::function<void()>& use) = 0;
  // For a checkpoint: while `use` runs, the parameters are whole where each rank keeps a part of
  // them. Collective.
  virtual void with_whole_model(const std::function<void()>& use) { use(); }

  // Throws JobFailed naming the first parameter that is not bitwise equal on all ranks. needs: not
  // models_differ(). Collective.
  virtual void check_equal() = 0;

  // What this replica found out by watching, in one line, for a checkpoint: a replica that is made
  // with it repeats the same bits. The same on all ranks; complete after the first step.
  virtual std::string observed() const = 0;

  // For a checkpoint: with this, each rank's model and its optimizer's state, training goes on to
  // the bits it would have had. An exchange under way ends, and is applied when it is due.
  // Collective.
  virtual ReplicaState state() = 0;
  // Goes on from what state() gave before, of this or another replica, on as many ranks or others;
  // where a rank's own is not known, it stays as state() gave it here. needs: no step yet, and the
  // model and the optimizer as they are to be
  virtual void restore(const ReplicaState& state) = 0;
  // For a checkpoint too, where the optimizer's state is kept elsewhere: what this rank has fetched
  // of it, by the names of sync/model/optimizer_state.h. Together, ranks have all of it, each
  // tensor once. Collective.
  virtual std::vector<sync::NamedTensor> fetch_optimizer_state() { return {}; }
  // Whether the optimizer's state is each rank's own even after synchronize().
  virtual bool keeps_own_optimizer() const = 0;
  // Makes the optimizer's own state what training has come to, and the same on all ranks: fetches
  // what is kept elsewhere, averages what each rank has of its own. With the parameters, that is
  // all that another way of staying in step needs to go on from here: a replica that is made next
  // begins with the state that it finds in the optimizer. After synchronize(); collective. Throws
  // BadInput for an optimizer whose state is not known, JobFailed.
  virtual void gather_optimizer_state() {}
  // Applies what it has kept back of earlier steps, before another way of staying in step goes on,
  // which would not know of it. Collective.
  virtual void apply_kept() {}

  // After a loss, where the way retakes steps (Capabilities): those who are left have rebuilt the
  // communicator, and come here wherever they were. A step that was under way is dropped, and its
  // batch may be taken again; where others had made it, this rank takes over what came of it, and
  // has made it too (stats().steps). Once more where somebody else is lost in it. Throws JobFailed
  // where nobody has a whole model. Collective.
  virtual void recover_step() {}

  virtual ReplicaStats stats() const = 0;
};

class NoSync {
 public:
  explicit NoSync(Replica& replica) : replica_(replica) { replica_.set_sync(false); }
  ~NoSync() { replica_.set_sync(true); }
  NoSync(const NoSync&) = delete;
  NoSync& operator=(const NoSync&) = delete;

 private:
  Replica& replica_;
};

}  // namespace asup
