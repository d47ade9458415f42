// What the ways of training with little communication have in common: each worker's own optimizer
// steps on the worker's own gradients, and models are exchanged now and then.
//
// What differs from a replica by all-reduce:
//   - grad() is this worker's own gradient, to be read and clipped at will; finish_exchange() has
//     nothing to do. A parameter without one is left alone by the optimizer, here.
//   - Between steps models differ, until synchronize().
//   - The optimizer steps before models are exchanged: when step() throws JobFailed, this worker's
//     own step is done, and its model is whole: its own, or one that was exchanged before.
//   - Buffers (BatchNorm statistics) stay on their worker, but for average_buffers().
//   - When a worker is lost, the others can go on: they rebuild the communicator and call
//     regroup(); each worker that is behind takes the steps alone that others have taken; and
//     synchronize() makes the models of those who are left one.
//
// Used from the thread that trains.
#pragma once

#include <functional>
#include <optional>
#include <random>
#include <vector>

#include "asup/base/clock.h"
#include "asup/collective/communicator.h"
#include "asup/sync/gradients/finite_steps.h"
#include "asup/sync/model/agreement.h"
#include "asup/sync/model/flat_model.h"
#include "asup/sync/model/trained_model.h"
#include "asup/sync/replica.h"
#include "asup/sync/way.h"

namespace asup::sync {

class LocalUpdateReplica : public Replica {
 public:
  StepResult step() final;
  void finish_exchange() final {}
  double clip_grad_norm(double max_norm) final;
  void set_sync(bool sync) final { sync_ = sync; }
  void describe_batch(std::uint64_t samples, double loss) final;
  bool models_differ() final;
  void average_buffers() final;
  void with_mean_model(const std::function<void()>& use) final;
  void check_equal() final;
  std::string observed() const override { return ""; }
  void gather_optimizer_state() final;
  ReplicaStats stats() const override;

  // step() without an exchange, whether one is due or not.
  StepResult step_alone();
  // What becomes of this worker's own steps whose gradients are infinite or NaN; they are left out
  // where nobody says otherwise, and models are exchanged all the same.
  void set_non_finite(NonFinite policy) { finite_.set_policy(policy); }
  // Those who are left of the workers have rebuilt the communicator. Exchanges under way are given
  // up, and where some have ended one that others have missed, those learn what it takes to go on
  // alike. needs: synchronize() before the next step(). Collective.
  virtual void regroup() = 0;
  // Asked by synchronize() when this worker has the model that all are to have, and before it takes
  // it: `all_have` throws JobFailed where others have not got it, and each keeps its own. Where
  // nobody is asked, some may have taken it when others find that a worker was lost.
  void ask_before_taking(std::function<void()> all_have) { all_have_ = std::move(all_have); }

 protected:
  // Collective: all ranks begin with rank 0's model. `settings` must be the same on all. `jitter`:
  // at most so long an exchange is put off, at random, on all ranks alike: they wait for each
  // other.
  LocalUpdateReplica(Communicator& communicator, torch::nn::Module& module,
                     torch::optim::Optimizer& optimizer, const std::vector<AgreedValue>& settings,
                     Seconds jitter);

  // The optimizer is about to step, and has stepped.
  virtual void before_step() {}
  virtual void after_step() = 0;

  Communicator& communicator() { return communicator_; }
  torch::optim::Optimizer& optimizer() { return model_.optimizer(); }
  FlatModel& flat() { return flat_; }
  std::uint64_t steps() const { return steps_; }

  // Samples and losses since they were last forgotten.
  struct Batches {
    double samples = 0;
    double loss = 0;        // summed over samples
    bool described = true;  // every step was, by describe_batch()
  };
  const Batches& batches() const { return batches_; }
  void set_batches(const Batches& batches) { batches_ = batches; }

  // Stands still for a random part of the jitter.
  void apply_jitter();
  // From now on ranks are put off by different times: they do not all wait for each other.
  void draw_jitter_per_rank();
  // By rank, how often each has done what this one has done so often. Collective.
  std::vector<std::int64_t> counts_of_all(std::int64_t own);
  // Throws JobFailed where others have not got what this worker is about to take.
  void ask_all() const {
    if (all_have_) all_have_();
  }
  // Throws JobFailed that says what failed.
  void expect(const Outcome& outcome) const;
  // The training thread stood still for an exchange, or an exchange was under way, since then.
  void waited(Clock::time_point since) { wait_seconds_ += seconds_since(since); }
  void exchanged(Clock::time_point since) { exchange_seconds_ += seconds_since(since); }
  void merged() { ++merges_; }
  // How far models are apart. needs: their mean in flat(), and each rank's own still in its place.
  // Collective.
  void find_distance();
  // The mean over ranks of |x_i - mean|^2, and |mean|^2.
  void found_distance(double squared, double mean_squared);

 private:
  // Constant after construction.
  Communicator& communicator_;
  const std::uint64_t bytes_before_;
  const Seconds jitter_;

  TrainedModel model_;
  FiniteSteps finite_;
  FlatModel flat_;
  std::mt19937_64 random_;
  std::function<void()> all_have_;
  bool sync_ = true;
  std::optional<Batches> described_;  // the step to come
  Batches batches_;
  std::uint64_t steps_ = 0, merges_ = 0;
  double wait_seconds_ = 0, exchange_seconds_ = 0;
  std::optional<double> consensus_distance_;
};

// As a way's factory returns it.
MadeReplica as_made(std::unique_ptr<LocalUpdateReplica> replica,
                    NonFinite policy = NonFinite::skip);

}  // namespace asup::sync
