#include "asup/checkpoint/trained.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "asup/base/error.h"
#include "asup/base/log.h"
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

double square_of_norm(const torch::Tensor& tensor) {
  return tensor.to(torch::kFloat64).square().sum().item<double>();
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
  return asup::describe(torch::empty(tensor.shape, torch::dtype(tensor.type).device(torch::kMeta)));
}

// Of the checkpoint's parameters one that is none of these; "" where there is none.
std::string other_parameter(const Index& index, const std::vector<NamedTensor>& parameters) {
  std::set<std::string> known;
  for (const auto& parameter : parameters) known.insert(kModel + parameter.name);
  for (const auto& [name, tensor] : index.tensors)
    if (name.starts_with(kModel) && !known.contains(name)) return name.substr(kModel.size());
  return "";
}

std::vector<NamedTensor> parameters_to_write(const Trained& trained) {
  auto parameters = sync::parameters_of(trained.module);
  if (!trained.part) return parameters;
  const std::set<std::string> written(trained.part->begin(), trained.part->end());
  std::erase_if(parameters, [&](const NamedTensor& each) { return !written.contains(each.name); });
  return parameters;
}

}  // namespace

void check_has(const Index& index, const torch::nn::Module& part, const Cuts& cuts) {
  const auto parameters = sync::parameters_of(part);
  const std::string other = other_parameter(index, parameters);
  for (const auto& [name, tensor] : parameters) {
    const auto found = index.tensors.find(kModel + name);
    require(found != index.tensors.end(),
            "the checkpoint is of another model, or of this one as another version of asup has it: "
            "it has no {}{}. Continue it with what wrote it, or begin a new run",
            name, other.empty() ? "" : ", but " + other);
    const Cut* cut = find_cut(cuts, name);
    const Index::Tensor own{tensor.scalar_type(), cut ? cut->whole : tensor.sizes().vec(), {}};
    require(found->second.shape == own.shape && found->second.type == own.type,
            "the checkpoint is of another model: it has {} {}, where the model has {}", name,
            describe(found->second), describe(own));
  }
}

void check_is_of(const Index& index, const torch::nn::Module& module, const Cuts& cuts) {
  check_has(index, module, cuts);
  const std::string other = other_parameter(index, sync::parameters_of(module));
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
  const auto parameters = parameters_to_write(trained);
  const auto optimizer = sync::named_state(trained.optimizer, parameters);
  const std::string own = place_of(trained.rank);
  RankTensors tensors{.common = {}, .own = {}, .cuts = trained.cuts};
  // Of parts, each rank has its own, and what replicas have in common is written by one.
  std::vector<NamedTensor>& common = trained.part ? tensors.own : tensors.common;
  add(common, kModel, trained.own_model() ? trained.mean_model : parameters);
  if (!trained.part || trained.rank == 0) add(common, kReplica, trained.replica.common);
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
    add(common, kOptimizer, optimizer);
  return tensors;
}

void save(Communicator& communicator, const std::string& path, const nlohmann::ordered_json& run,
          const Trained& trained) {
  write(communicator, path, run,
        parts_of_rank(tensors_of(trained), communicator.rank(), communicator.size()));
}

Restore::Restore(Reader& reader, Communicator& communicator, int rank, bool same_way, Cuts cuts)
    : reader_(reader),
      communicator_(communicator),
      same_way_(same_way),
      cuts_(std::move(cuts)),
      saved_(ranks_in(reader.index())) {
  if (saved_.empty()) throw JobFailed("the checkpoint has nothing of any rank");
  as_many_ = saved_.size() == static_cast<std::size_t>(communicator.size());
  knows_rank_ = std::find(saved_.begin(), saved_.end(), rank) != saved_.end();
  own_ = place_of(as_many_      ? saved_[static_cast<std::size_t>(communicator.rank())]
                  : knows_rank_ ? rank
                                : saved_.front());
}

// Of what is cut, this rank's part.
TensorsByName Restore::read(const std::vector<std::string>& names) const {
  TensorsByName tensors = reader_.read(communicator_, names);
  for (auto& [name, tensor] : tensors)
    if (const Cut* cut = find_cut(cuts_, name); cut && tensor.sizes() == cut->whole)
      tensor = cut->part_of(tensor);
  return tensors;
}

void Restore::common(torch::nn::Module& module, torch::optim::Optimizer& optimizer) {
  const auto parameters = sync::parameters_of(module);
  sync::together(communicator_, [&] { check_has(reader_.index(), module, cuts_); });
  const auto states = sync::state_names(optimizer, parameters);
  std::vector<std::string> names;
  add_names(names, kModel, parameters);
  add_names(names, kOptimizer, states);
  const bool averages = !(same_way_ && as_many_);
  if (averages)
    for (const int rank : saved_) add_names(names, place_of(rank) + kOptimizer, states);
  const TensorsByName saved = read(names);

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

// Where a rank's own buffer is: its own place, or, where it had another part of the model then,
// that of the first who had this one.
std::string Restore::place_of_own(const std::string& name) const {
  const auto has = [&](const std::string& place) {
    return reader_.index().tensors.contains(place + kOwn + name);
  };
  if (has(own_)) return own_;
  const auto found = std::ranges::find_if(saved_, [&](int rank) { return has(place_of(rank)); });
  return found == saved_.end() ? own_ : place_of(*found);
}

void Restore::own(const Trained& trained) {
  const auto parameters = sync::parameters_of(trained.module);
  const bool comes_back = same_way_ && as_many_;
  std::vector<std::string> names{own_ + kRandom, own_ + kDeviceRandom};
  for (const NamedTensor& each : trained.own)
    names.push_back(place_of_own(each.name) + kOwn + each.name);
  if (same_way_) add_names(names, kReplica, trained.replica.common);
  for (const int rank : saved_)
    if (same_way_ && !as_many_) add_names(names, place_of(rank) + kPart, trained.replica.parts);
  if (comes_back) {
    add_names(names, own_ + kReplica, trained.replica.own);
    add_names(names, own_ + kPart, trained.replica.parts);
    add_names(names, own_ + kModel, parameters);
    add_names(names, own_ + kOptimizer, sync::state_names(trained.optimizer, parameters));
  }
  const bool tells = communicator_.rank() == 0;
  const auto lost = tells ? left_over(trained.replica.parts) : std::vector<std::string>();
  names.insert(names.end(), lost.begin(), lost.end());
  const TensorsByName saved = read(names);

  sync::together(communicator_, [&] {
    tell_of_lost(saved, lost);
    for (const NamedTensor& each : trained.own)
      take_known(place_of_own(each.name) + kOwn, saved, {each});
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

// The mean over ranks stays what it was. Of more ranks those that were there keep theirs, which
// counts for as much more, and the others have none yet; of fewer each gets the mean, since of
// those that are not there any more nothing is to be lost.
void Restore::spread(const TensorsByName& saved, const std::vector<NamedTensor>& parts) const {
  const auto ranks = static_cast<std::size_t>(communicator_.size());
  const auto own = static_cast<std::size_t>(communicator_.rank());
  double squares = 0;
  for (const auto& [name, tensor] : parts) {
    std::vector<torch::Tensor> of_ranks;
    for (const int rank : saved_)
      if (const auto found = saved.find(place_of(rank) + kPart + name);
          found != saved.end() && are_alike(found->second, tensor))
        of_ranks.push_back(found->second);
    if (of_ranks.empty()) continue;
    torch::Tensor part = mean(of_ranks, saved_.size());
    squares += square_of_norm(part);
    if (ranks > saved_.size()) {
      const auto kept =
          own < saved_.size() ? saved.find(place_of(saved_[own]) + kPart + name) : saved.end();
      part = kept == saved.end()
                 ? torch::zeros_like(part)
                 : kept->second * (static_cast<double>(ranks) / static_cast<double>(saved_.size()));
    }
    copy_into(tensor, part);
  }
  if (squares > 0 && own == 0)
    log().info(
        "what {} workers have kept for later exchanges, a mean of norm {:.4g}, goes on with {}",
        saved_.size(), std::sqrt(squares), ranks);
}

// Parts that nobody asks for.
std::vector<std::string> Restore::left_over(const std::vector<NamedTensor>& parts) const {
  std::set<std::string> known;
  for (const NamedTensor& part : parts) known.insert(part.name);
  std::set<std::string> names;
  for (const auto& [name, tensor] : reader_.index().tensors)
    for (const int rank : saved_)
      if (const std::string place = place_of(rank) + kPart;
          name.starts_with(place) && !(same_way_ && known.contains(name.substr(place.size()))))
        names.insert(name);
  return {names.begin(), names.end()};
}

void Restore::tell_of_lost(const TensorsByName& saved,
                           const std::vector<std::string>& names) const {
  std::map<std::string, std::vector<torch::Tensor>> lost;  // by what they are called on each rank
  for (const std::string& name : names)
    lost[name.substr(name.find(kPart) + kPart.size())].push_back(saved.at(name));
  double squares = 0;
  for (const auto& [name, of_ranks] : lost)
    squares += square_of_norm(mean(of_ranks, saved_.size()));
  if (squares > 0)
    log().warn(
        "what {} workers have kept for later exchanges ({}{}), a mean of norm {:.4g}, is lost: "
        "this "
        "run does not exchange as the one before it",
        saved_.size(), lost.begin()->first, lost.size() > 1 ? ", …" : "", std::sqrt(squares));
}

void Restore::average(const std::vector<NamedTensor>& average) {
  std::vector<std::string> names;
  add_names(names, kAverage, average);
  if (same_way_ && as_many_) add_names(names, own_ + kAverage, average);
  const TensorsByName saved = read(names);
  sync::together(communicator_, [&] {
    take_known(kAverage, saved, average);
    take_known(own_ + kAverage, saved, average);
  });
}

}  // namespace asup::checkpoint
