// Everything that a run works on, made ready for the first step. Used from the thread that trains.
#pragma once

#include <memory>
#include <optional>

#include "asup/base/noise_scale.h"
#include "asup/checkpoint/trained.h"
#include "asup/collective/communicator.h"
#include "asup/data/dataset.h"
#include "asup/data/sharding.h"
#include "asup/models/compute_path.h"
#include "asup/models/model.h"
#include "asup/net/job.h"
#include "asup/precision/grad_scaler.h"
#include "asup/report/records.h"
#include "asup/sync/averaging/local_update_replica.h"
#include "asup/sync/replica.h"
#include "asup/sync/server/server_replica.h"
#include "asup/train/checkpoint_info.h"
#include "asup/train/config.h"
#include "asup/train/offload.h"
#include "asup/train/phases.h"
#include "asup/train/schedule.h"
#include "asup/train/state/spread_model.h"
#include "asup/train/state/weight_average.h"
#include "asup/train/tuned_choices.h"

namespace asup::train {

struct TrainingContext {
  TrainConfig config;                           // as it counts in the phase that the run is in
  std::unique_ptr<Communicator> control;        // figures, tests, checkpoints
  std::unique_ptr<Communicator> gradients;      // the replica's own; none where there are servers
  std::unique_ptr<parallel::Grid> grid;         // of all workers, where several train one model
  std::optional<parallel::TensorGroup> tensor;  // that has parts of each layer, where there is one
  std::unique_ptr<data::Dataset> train, test;
  std::unique_ptr<data::Dataset> validation;  // where some of the training samples are set aside
  std::unique_ptr<data::ShardedBatches> batches;
  torch::Device device = torch::kCPU;  // this worker's, where the model is
  std::shared_ptr<models::Model> model;
  std::unique_ptr<SpreadModel> spread;  // the same, where several workers train one together
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  std::unique_ptr<Replica> replica;  // goes before what it refers to: members go in reverse order
  std::optional<WeightAverage> average;       // of the model, where it is wanted
  ServerReplica* server = nullptr;            // the same, where there are servers
  sync::LocalUpdateReplica* local = nullptr;  // the same, where models are exchanged
  std::unique_ptr<GradScaler> scaler;         // of losses, in fp16; else none
  NoiseScale portion_noise;  // of the portions of this worker's batches (`--accumulate`)
  models::ComputePath path;
  Offload offload;
  TunedChoices choices;
  RunLength length;
  report::RunFacts facts;
  std::optional<CheckpointInfo> resumed;
  std::vector<std::string> damaged;  // checkpoints newer than that one, as rank 0 finds them
  Phase phase = Phase::first;
  std::optional<std::int64_t> switched_after;  // the step after which the second began

  // What is trained here: the model, or what this worker has of it.
  torch::nn::Module& module() const {
    return spread ? spread->module() : static_cast<torch::nn::Module&>(*model);
  }
  // Groups of workers that share batches, each of which trains one model; most often of one worker.
  int groups() const { return spread ? spread->groups() : control->size(); }
  int group() const { return spread ? spread->group() : control->rank(); }
};

// What of it a checkpoint holds; `rank` is this one's in the job. Collective.
checkpoint::Trained trained_of(const TrainingContext& context, int rank);

// What of a context comes anew with each phase, after `step` steps: the replica, and the gradients'
// communicator where it wants one and there is none. It begins with the state that the optimizer
// has. Collective.
void make_replica_of_phase(TrainingContext& context, Job& job, std::int64_t step);

// The same, from the parameters and the optimizer's state, which are the same on all ranks, of
// whichever way. Statistics stay each rank's own.
void make_replica_from_neutral_state(TrainingContext& context, Job& job, std::int64_t step);

// Collective. The checkpoint to resume from, if any, has been loaded when it returns. Throws
// BadInput for data, models or checkpoints that cannot be used, JobFailed where ranks disagree.
TrainingContext make_context(Job& job, const TrainConfig& config, StepHooks& hooks);

}  // namespace asup::train
