#include "asup/checkpoint/trained.h"

#include <algorithm>
#include <set>

#include "asup/base/error.h"
#include "asup/checkpoint/writer.h"
#include "asup/sync/model/agreement.h"
#include "asup/sync/model/optimizer_state.h"

namespace asup::checkpoint {
namespace {

using sync::NamedTensor;

const std::string kModel = "model/", kOptimizer = "optimizer/", kReplica = "replica/",
                  kPart = "part/", kOwn = "own/", kAverage = "average/", kRandom = "random",
                  kDeviceRandom = "random-on-device";

std::string place_of(int rank) { return fmt::format("rank-{}/", rank); }

void add(std::vector<NamedTensor>& tensors, const std::string& place,
         const std::vector<NamedTensor>& more) {
  for (const auto& [name, tensor] : more) tensors.push_back({place + name, tensor});
}

template <typename Names>
void add_names(std::vector<std::string>& names, const std::string& place, const Names& more) {
  for (const auto& each : more) {
    if constexpr (std::is_same_v<std::decay_t<decltype(each)>, NamedTensor>)
      names.push_back(place + each.name);
    else
      names.push_back(place + each);
  }
}

// Those under `place`, by the rest of their names.
TensorsByName under(const std::string& place, const TensorsByName& tensors) {
  TensorsByName found;
  for (auto at = tensors.lower_bound(place); at != tensors.end() && at->first.starts_with(place);
       ++at)
    found.emplace(at->first.substr(place.size()), at->second);
  return found;
}

at::Generator generator(const at::Device& device = at::kCPU) {
  return at::globalContext().defaultGenerator(device);
}

// Where the model is.
at::Device device_of(const torch::nn::Module& module) {
  const auto parameters = module.parameters();
  return parameters.empty() ? at::kCPU : parameters.front().device();
}

// Into the tensor's own memory, which others may look at.
void copy_into(torch::Tensor tensor, const torch::Tensor& saved) {
  torch::NoGradGuard no_grad;
  tensor.copy_(saved);
}

bool are_alike(const torch::Tensor& a, const torch::Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type();
}

// Copies what there is under `place` for these tensors; what there is not stays as it is.
void take_known(const std::string& place, const TensorsByName& saved,
                const std::vector<NamedTensor>& tensors) {
  for (const auto& [name, tensor] : tensors)
    if (const auto found = saved.find(place + name);
        found != saved.end() && are_alike(found->second, tensor))
      copy_into(tensor, found->second);
}

// Of tensors that some ranks may lack, which had zeros then; of counts the largest.
torch::Tensor mean(const std::vector<torch::Tensor>& tensors, std::size_t ranks) {
  if (!tensors.front().is_floating_point()) return torch::stack(tensors).amax(0);
  torch::Tensor sum = torch::zeros(tensors.front().sizes(), torch::kFloat64);
  for (const torch::Tensor& tensor : tensors) sum.add_(tensor);
  return sum.div_(static_cast<double>(ranks)).to(tensors.front().scalar_type());
}

std::vector<int> ranks_in(const Index& index) {
  std::vector<int> ranks;
  for (const auto& [name, tensor] : index.tensors)
    if (name.starts_with("rank-") && name.ends_with("/" + kRandom))
      ranks.push_back(std::stoi(name.substr(5)));
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

std::string describe(const Index::Tensor& tensor) {
  return sync::describe(torch::empty(tensor.shape, torch::dtype(tensor.type).device(torch::kMeta)));
}

// Of the checkpoint's parameters one that is none of these; "" where there is none.
std::string other_parameter(const Index& index, const std::vector<NamedTensor>& parameters) {
  std::set<std::string> known;
  for (const auto& parameter : parameters) known.insert(kModel + parameter.name);
  for (const auto& [name, tensor] : index.tensors)
    if (name.starts_with(kModel) && !known.contains(name)) return name.substr(kModel.size());
  return "";
}

}  // namespace

void check_is_of(const Index& index, const torch::nn::Module& module) {
  const auto parameters = sync::parameters_of(module);
  const std::string other = other_parameter(index, parameters);
  for (const auto& [name, tensor] : parameters) {
    const auto found = index.tensors.find(kModel + name);
    require(found != index.tensors.end(),
            "the checkpoint is of another model, or of this one as another version of asup has it: "
            "it has no {}{}. Continue it with what wrote it, or begin a new run",
            name, other.empty() ? "" : ", but " + other);
    require(found->second.shape == tensor.sizes() && found->second.type == tensor.scalar_type(),
            "the checkpoint is of another model: it has {} {}, where the model has {}", name,
            describe(found->second), sync::describe(tensor));
  }
  require(other.empty(), "the checkpoint is of another model: it has {}, which the model has not",
          other);
}

TensorsByName read_model(Folder& checkpoint) {
  TensorsByName model;
  std::map<std::string, std::vector<torch::Tensor>> own;
  const std::vector<int> ranks = ranks_in(checkpoint.index());
  for (const auto& [name, tensor] : checkpoint.index().tensors) {
    if (name.starts_with(kModel)) model.emplace(name.substr(kModel.size()), checkpoint.read(name));
    for (const int rank : ranks)
      if (const std::string place = place_of(rank) + kOwn; name.starts_with(place))
        own[name.substr(place.size())].push_back(checkpoint.read(name));
  }
  for (const auto& [name, tensors] : own) model[name] = mean(tensors, tensors.size());
  for (const auto& [name, tensor] : checkpoint.index().tensors)
    if (name.starts_with(kAverage)) model[name.substr(kAverage.size())] = checkpoint.read(name);
  return model;
}

RankTensors tensors_of(const Trained& trained) {
  const auto parameters = sync::parameters_of(trained.module);
  const auto optimizer = sync::named_state(trained.optimizer, parameters);
  const std::string own = place_of(trained.rank);
  RankTensors tensors;
  add(tensors.common, kModel, trained.own_model() ? trained.mean_model : parameters);
  add(tensors.common, kReplica, trained.replica.common);
  add(tensors.common, kAverage, trained.average);
  add(tensors.own, own + kAverage, trained.own_average);
  add(tensors.own, own + kOwn, trained.own);
  add(tensors.own, own + kReplica, trained.replica.own);
  add(tensors.own, own + kPart, trained.replica.parts);
  add(tensors.own, kOptimizer, trained.fetched_state);
  tensors.own.push_back({own + kRandom, generator().get_state()});
  if (const at::Device device = device_of(trained.module); !device.is_cpu())
    tensors.own.push_back({own + kDeviceRandom, generator(device).get_state()});
  if (trained.own_model()) add(tensors.own, own + kModel, parameters);
  if (trained.own_model() || trained.own_optimizer)
    add(tensors.own, own + kOptimizer, optimizer);
  else
    add(tensors.common, kOptimizer, optimizer);
  return tensors;
}

void save(Communicator& communicator, const std::string& path, const nlohmann::ordered_json& run,
          const Trained& trained) {
  write(communicator, path, run,
        parts_of_rank(tensors_of(trained), communicator.rank(), communicator.size()));
}

Restore::Restore(Reader& reader, Communicator& communicator, int rank, bool same_way)
    : reader_(reader),
      communicator_(communicator),
      same_way_(same_way),
      saved_(ranks_in(reader.index())) {
  if (saved_.empty()) throw JobFailed("the checkpoint has nothing of any rank");
  as_many_ = saved_.size() == static_cast<std::size_t>(communicator.size());
  knows_rank_ = std::find(saved_.begin(), saved_.end(), rank) != saved_.end();
  own_ = place_of(as_many_      ? saved_[static_cast<std::size_t>(communicator.rank())]
                  : knows_rank_ ? rank
                                : saved_.front());
}

void Restore::common(torch::nn::Module& module, torch::optim::Optimizer& optimizer) {
  const auto parameters = sync::parameters_of(module);
  sync::together(communicator_, [&] { check_is_of(reader_.index(), module); });
  const auto states = sync::state_names(optimizer, parameters);
  std::vector<std::string> names;
  add_names(names, kModel, parameters);
  add_names(names, kOptimizer, states);
  const bool averages = !(same_way_ && as_many_);
  if (averages)
    for (const int rank : saved_) add_names(names, place_of(rank) + kOptimizer, states);
  const TensorsByName saved = reader_.read(communicator_, names);

  sync::together(communicator_, [&] {
    take_known(kModel, saved, parameters);
    TensorsByName state = under(kOptimizer, saved);
    for (const std::string& name : states) {
      std::vector<torch::Tensor> of_ranks;
      for (const int rank : saved_)
        if (const auto found = saved.find(place_of(rank) + kOptimizer + name); found != saved.end())
          of_ranks.push_back(found->second);
      if (!of_ranks.empty()) state.emplace(name, mean(of_ranks, saved_.size()));
    }
    sync::set_named_state(optimizer, parameters, state);
  });
}

void Restore::own(const Trained& trained) {
  const auto parameters = sync::parameters_of(trained.module);
  const bool comes_back = same_way_ && as_many_;
  std::vector<std::string> names{own_ + kRandom, own_ + kDeviceRandom};
  add_names(names, own_ + kOwn, trained.own);
  if (same_way_) add_names(names, kReplica, trained.replica.common);
  for (const int rank : saved_)
    if (same_way_ && !as_many_) add_names(names, place_of(rank) + kPart, trained.replica.parts);
  if (comes_back) {
    add_names(names, own_ + kReplica, trained.replica.own);
    add_names(names, own_ + kPart, trained.replica.parts);
    add_names(names, own_ + kModel, parameters);
    add_names(names, own_ + kOptimizer, sync::state_names(trained.optimizer, parameters));
  }
  const TensorsByName saved = reader_.read(communicator_, names);

  sync::together(communicator_, [&] {
    take_known(own_ + kOwn, saved, trained.own);
    take_known(kReplica, saved, trained.replica.common);
    take_known(own_ + kReplica, saved, trained.replica.own);
    if (comes_back)
      take_known(own_ + kPart, saved, trained.replica.parts);
    else
      spread(saved, trained.replica.parts);
    take_known(own_ + kModel, saved, parameters);
    sync::set_named_state(trained.optimizer, parameters, under(own_ + kOptimizer, saved));
    // Another rank's would repeat its numbers.
    if (!as_many_ && !knows_rank_) return;
    if (const auto random = saved.find(own_ + kRandom); random != saved.end())
      generator().set_state(random->second);
    const at::Device device = device_of(trained.module);
    if (const auto random = saved.find(own_ + kDeviceRandom);
        random != saved.end() && !device.is_cpu())
      generator(device).set_state(random->second);
  });
}

// Each gets the mean over the ranks that have left a part, whose mean over ranks stays the same.
void Restore::spread(const TensorsByName& saved, const std::vector<NamedTensor>& parts) const {
  for (const auto& [name, tensor] : parts) {
    std::vector<torch::Tensor> of_ranks;
    for (const int rank : saved_)
      if (const auto found = saved.find(place_of(rank) + kPart + name);
          found != saved.end() && are_alike(found->second, tensor))
        of_ranks.push_back(found->second);
    if (!of_ranks.empty()) copy_into(tensor, mean(of_ranks, saved_.size()));
  }
}

void Restore::average(const std::vector<NamedTensor>& average) {
  std::vector<std::string> names;
  add_names(names, kAverage, average);
  if (same_way_ && as_many_) add_names(names, own_ + kAverage, average);
  const TensorsByName saved = reader_.read(communicator_, names);
  sync::together(communicator_, [&] {
    take_known(kAverage, saved, average);
    take_known(own_ + kAverage, saved, average);
  });
}

}  // namespace asup::checkpoint
