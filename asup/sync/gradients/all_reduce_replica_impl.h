// The replica by all-reduce (all_reduce_replica.h), for its own sources: how it trains
// (all_reduce_replica.cc), and how it goes on from a checkpoint or after a loss
// (all_reduce_recovery.cc). Used from the thread that trains.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "asup/sync/compressors/taken_momentum.h"
#include "asup/sync/gradients/all_reduce_replica.h"
#include "asup/sync/gradients/finite_steps.h"
#include "asup/sync/gradients/gradient_exchange.h"
#include "asup/sync/gradients/made_steps.h"
#include "asup/sync/model/trained_model.h"
#include "asup/sync/sharded/parameters_on_demand.h"
#include "asup/sync/sharded/sharded_optimizer.h"

namespace asup {

class AllReduceReplica final : public Replica {
 public:
  AllReduceReplica(Communicator& communicator, torch::nn::Module& module,
                   torch::optim::Optimizer& optimizer, const AllReduceOptions& options);

  StepResult step() override;
  void finish_exchange() override;
  double clip_grad_norm(double max_norm) override;
  bool clips_after_exchange() const override { return !taken_momentum_; }
  void set_sync(bool sync) override { exchange_->set_sync(sync); }
  void describe_batch(std::uint64_t samples, double) override { exchange_->describe(samples); }
  void describe_weighed_batch(std::uint64_t samples) override {
    exchange_->describe_weighed(samples);
  }
  void synchronize() override;
  bool has_moved() const override {
    return moved_ || (steps_ > 0 && on_demand_ && !on_demand_->are_all_here());
  }
  bool models_differ() override { return moved_; }  // ranks step alike
  void average_buffers() override;
  void with_mean_model(const std::function<void()>& use) override;
  void with_whole_model(const std::function<void()>& use) override;
  void check_equal() override;
  std::string observed() const override;
  ReplicaState state() override;
  void restore(const ReplicaState& state) override;
  bool keeps_own_optimizer() const override { return false; }
  std::vector<sync::NamedTensor> fetch_optimizer_state() override;
  void gather_optimizer_state() override;
  void apply_kept() override;
  void recover_step() override;
  ReplicaStats stats() const override;

 private:
  std::vector<std::size_t> agree_on_order() const;
  // `again`: since ranks were lost.
  std::unique_ptr<Compressor> make_compressor(bool again = false) const;
  std::unique_ptr<sync::GradientExchange> make_exchange(bool again = false) const;
  void drop_exchange();
  void take_over_from(int rank);
  void take_layout_from(int rank);
  void tell_of_lost(const sync::FurthestSteps& furthest);
  void begin_anew(const sync::FurthestSteps& furthest);
  void make_shards();
  void exchange_buffers(BufferSync way);
  void learn_order();
  void step_optimizer();
  void step_model();
  void step_own_part();
  void clip_dense();
  void step_those(bool compressed);
  void step_by(const std::vector<torch::Tensor>& waiting);
  bool compresses() const { return options_.code != kernels::Code::none || compressor_; }

  // Constant after construction.
  Communicator& communicator_;
  const AllReduceOptions options_;
  const std::uint64_t bytes_before_;

  int ranks_;  // since the last loss
  sync::TrainedModel model_;
  std::unique_ptr<Compressor> compressor_;                   // none: a code, or nothing
  const std::optional<sync::TakenMomentum> taken_momentum_;  // by it
  sync::FiniteSteps finite_;
  std::vector<std::size_t> order_;                       // of the gradients; empty until observed
  std::unique_ptr<sync::GradientExchange> exchange_;     // null: dropped, after a loss
  std::unique_ptr<sync::ShardedOptimizer> sharded_;      // none: each rank moves all parameters
  std::unique_ptr<sync::ParametersOnDemand> on_demand_;  // none: each rank has all of them
  const bool rounds_differently_;                        // than another rank; the same on all
  bool moved_ = false;         // since all had the same bits, where that is so
  bool applies_kept_ = false;  // a step by what is kept is under way, or was when a rank was lost
  std::uint64_t steps_ = 0;
  double buffer_seconds_ = 0;

  // Of an exchange that was dropped: what it has kept of gradients, as it was before its step and
  // as it is once that is applied.
  struct Dropped {
    std::uint64_t step = 0, exchanges = 0;
    double unit = 0;
    double norm = 0;           // of what waits, before
    bool applied_all = false;  // the step was one by what is kept
    std::vector<sync::NamedTensor> before, after;
    std::vector<sync::NamedTensor> compressor;  // its own state
  };
  std::optional<Dropped> dropped_;
  // What became of the step under way where others have made it, and this rank has their model.
  std::optional<StepResult> made_elsewhere_;
  bool is_whole_ = true;  // else it was taking over another rank's model when that was lost
  double wait_seconds_before_ = 0, exchange_seconds_before_ = 0;  // of exchanges that were dropped
};

}  // namespace asup
