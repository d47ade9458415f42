// A run's whole state in a folder (index.h), so that it can go on from there to the same
// bits. Which tensors it has, by name:
//
//   model/NAME              the parameters; where ranks' differ, their mean
//   optimizer/KIND/NAME     the optimizer's state, where it is one for all (optimizer_state.h)
//   replica/NAME            what the way of staying in step has in common
//   average/NAME            the moving average of parameters and buffers, where there is one: the
//                           mean over ranks
//   rank-3/random           the state of rank 3's random numbers
//   rank-3/own/NAME         its BatchNorm statistics, and parameters that it trains for itself
//   rank-3/replica/NAME     what its replica has of its own
//   rank-3/part/NAME        and what counts as the mean over ranks
//   rank-3/average/NAME     its own average of what differs between ranks
//   rank-3/model/NAME, rank-3/optimizer/KIND/NAME    where ranks' differ
//
// Called by the thread that trains; collective.
#pragma once

#include <torch/torch.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "asup/checkpoint/cut.h"
#include "asup/checkpoint/reader.h"
#include "asup/checkpoint/writer.h"
#include "asup/collective/communicator.h"
#include "asup/sync/replica.h"

namespace asup::checkpoint {

// What is trained, as this rank has it.
struct Trained {
  torch::nn::Module& module;
  torch::optim::Optimizer& optimizer;
  // Tensors that differ between ranks: buffers, and parameters that each trains for itself.
  std::vector<sync::NamedTensor> own;
  bool own_optimizer = false;  // so does the optimizer's state
  int rank = 0;                // in the job, of which some may have been lost
  // Where all parameters differ, and the optimizer's state too: the mean of the parameters.
  std::vector<sync::NamedTensor> mean_model{};
  ReplicaState replica{};
  std::vector<sync::NamedTensor> fetched_state{};  // Replica::fetch_optimizer_state()
  // Where the module is a part of the model that is trained: its parameters that this rank writes,
  // and which of them it has a part of. Of all ranks, one writes each, or each part. None: all
  // ranks have all of them.
  std::optional<std::vector<std::string>> part{};
  Cuts cuts{};
  // The moving average of the weights, as the mean over ranks, and this rank's where it differs.
  std::vector<sync::NamedTensor> average{}, own_average{};

  bool own_model() const { return !mean_model.empty(); }
};

// By their names in a checkpoint. Those that are the model's and the optimizer's are not copied.
RankTensors tensors_of(const Trained& trained);

// `run`: what the caller wants to know of it later. Throws JobFailed on all ranks when it cannot be
// written; what was there is untouched then.
void save(Communicator& communicator, const std::string& path, const nlohmann::ordered_json& run,
          const Trained& trained);

// The model to use, parameters and buffers: their moving average where there is one, and else what
// ranks have of their own as the mean over them, of
// counts the largest. Not collective. Throws BadInput where the checkpoint cannot be read.
TensorsByName read_model(Folder& checkpoint);

// Throws BadInput unless the checkpoint has the module's parameters, each of its shape and type,
// and no others. Of those that are cut, the module has parts.
void check_is_of(const Index& index, const torch::nn::Module& module, const Cuts& cuts = {});
// The same of a part of a model, where there may be others.
void check_has(const Index& index, const torch::nn::Module& part, const Cuts& cuts = {});

// Brings a checkpoint back, before and after a replica is made. To as many ranks as have written
// it, by the same way of staying in step, each rank's own comes back. To others, a rank that has
// left nothing gets the buffers that were the first's who had them, and where models or optimizers
// were each rank's own, all get the mean of them. Of parts the mean over ranks stays; the log has
// its norm, and that of what is lost where the replica has no use for it. Throws JobFailed on all
// ranks where it is of another model or optimizer.
class Restore {
 public:
  // `cuts`: of the module's parameters those of which this rank has a part.
  Restore(Reader& reader, Communicator& communicator, int rank, bool same_way, Cuts cuts = {});

  // What all ranks have in common, and what is to become so.
  void common(torch::nn::Module& module, torch::optim::Optimizer& optimizer);
  // What is this rank's own, and the replica's: Replica::restore() takes it from `trained`.
  void own(const Trained& trained);
  // This rank's moving average of the weights, into these tensors.
  void average(const std::vector<sync::NamedTensor>& average);

 private:
  TensorsByName read(const std::vector<std::string>& names) const;
  std::string place_of_own(const std::string& name) const;
  void spread(const TensorsByName& saved, const std::vector<sync::NamedTensor>& parts) const;
  std::vector<std::string> left_over(const std::vector<sync::NamedTensor>& parts) const;
  void tell_of_lost(const TensorsByName& saved, const std::vector<std::string>& names) const;

  Reader& reader_;
  Communicator& communicator_;
  const bool same_way_;
  const Cuts cuts_;
  std::vector<int> saved_;  // ranks that have left something
  bool as_many_ = false;
  bool knows_rank_ = false;
  std::string own_;  // "rank-3/": where this rank's own is
};

}  // namespace asup::checkpoint
