// A run's whole state in a file, so that it can go on from there to the same bits.
//
// Rank 0 writes and reads the file; what belongs to each rank (BatchNorm statistics, random
// numbers, and its model and optimizer where they differ) travels. Called by the thread that
// trains; saving and restoring are collective.
#pragma once

#include <torch/torch.h>

#include <optional>
#include <string>
#include <vector>

#include "asup/collective/communicator.h"
#include "asup/sync/replica.h"
#include "asup/train/checkpoint/checkpoint_file.h"
#include "asup/train/config.h"
#include "asup/train/phases.h"
#include "asup/train/stall.h"
#include "asup/train/tuned_choices.h"

namespace asup::train {

// What a summary counts over the whole run, resumed or not.
struct Totals {
  double seconds = 0;
  double train_seconds = 0;
  double comm_s = 0;
  std::int64_t samples = 0;
  std::uint64_t bytes_sent = 0;
};

// The checkpoint's header.
struct CheckpointInfo {
  std::int64_t step = 0;  // done
  std::int64_t ranks = 0;
  TrainConfig config;
  TunedChoices choices;
  Totals totals;
  std::vector<std::int64_t> samples_by_worker{};  // where each went at its own pace
  // Of a run that changes its way: the step after which it did, and what it knows of the loss.
  std::optional<std::int64_t> switched_after{};
  Stall stall{};

  // As it counted when it was saved.
  TrainConfig config_of_phase() const {
    return of_phase(config, switched_after ? Phase::second : Phase::first);
  }
};

// What is trained, as this rank has it.
struct Trained {
  torch::nn::Module& module;
  torch::optim::Optimizer& optimizer;
  // Tensors that differ between ranks: buffers, and parameters that each trains for itself.
  std::vector<sync::NamedTensor> own;
  bool own_optimizer = false;  // so does the optimizer's state
  int rank = 0;                // in the job, of which some may have been lost
  // All parameters differ, and so does the optimizer's state; when restored, they may.
  bool own_model = false;
  ReplicaState replica{};  // when restored, for Replica::restore()
};

// Throws BadInput for a header of another form, naming `path`.
CheckpointInfo info_of(const CheckpointFile& file, const std::string& path);

// The newest checkpoint of a run folder, read and checked; throws BadInput that says what is wrong
// with it and what to do.
CheckpointFile read_newest_checkpoint(const std::string& run_folder);

// Throws BadInput unless a run with this configuration, of so many steps, can go on from the
// checkpoint: every setting of Scope::fixed is as it was. With another number of workers it goes
// on, though not to the same bits.
void check_can_resume(const CheckpointInfo& info, const TrainConfig& config, std::int64_t steps);

// Throws JobFailed on all ranks when rank 0 cannot write `path`; what was there is untouched.
void save_checkpoint(Communicator& communicator, const std::string& path,
                     const CheckpointInfo& info, const Trained& trained);

// `file` is rank 0's; other ranks' is not looked at. By as many ranks as have written it, each gets
// its own again. By others, a rank that has left nothing gets what was the first's own, and where
// models were each rank's own all get the mean of them and of their optimizers, as they do where
// there is to be one model. Where the run had an optimizer on each rank and is to have one, it gets
// the average. Throws JobFailed on all ranks where it is of another model or optimizer.
void restore_checkpoint(Communicator& communicator, const CheckpointFile& file,
                        const Trained& trained);
// The parameters alone.
void restore_parameters(Communicator& communicator, const CheckpointFile& file,
                        torch::nn::Module& module);

}  // namespace asup::train
