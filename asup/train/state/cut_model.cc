#include "asup/train/state/cut_model.h"

#include <fmt/ranges.h>

#include "asup/parallel/tensor/cut.h"
#include "asup/sync/model/agreement.h"
#include "asup/tensors/tensors.h"
#include "asup/train/grid_settings.h"
#include "asup/train/state/inputs.h"

namespace asup::train {

using torch::Tensor;

CutModel::CutModel(Communicator& workers, const TrainConfig& config, const data::Dataset& dataset)
    : SpreadModel(workers, grid_shape(config)),
      tensor_(grid_.tensor().split(0, grid_.tensor().rank())),
      model_(make_model(config, dataset, {}, &tensor_)) {
  const auto cuts = parallel::cuts_of(*model_);
  for (const sync::NamedTensor& each : sync::parameters_of(*model_))
    if (!cuts.contains(each.name)) uncut_.push_back(each);
  if (tensor_.rank() == 0) return;
  for (const sync::NamedTensor& each : uncut_) copies_.push_back(each.name);
}

checkpoint::Cuts CutModel::cuts() const {
  const auto cuts = parallel::cuts_of(*model_);
  checkpoint::Cuts parts;
  for (const auto& [name, tensor] : sync::parameters_of(*model_)) {
    const auto found = cuts.find(name);
    if (found == cuts.end()) continue;
    const parallel::TensorCut& cut = found->second;
    checkpoint::Cut part{parallel::whole_shape(tensor.sizes(), cut), cut.dimension, {}};
    for (const parallel::IndexRange& range : cut.ranges(tensor_.rank(), tensor_.size()))
      part.ranges.push_back({range.begin, range.size});
    parts.emplace(name, std::move(part));
  }
  return parts;
}

void CutModel::take(const torch::nn::Module& whole) {
  torch::NoGradGuard no_grad;
  const checkpoint::Cuts cuts = this->cuts();
  const auto theirs = whole.named_parameters();
  for (auto& [name, tensor] : sync::parameters_of(*model_)) {
    const checkpoint::Cut* cut = checkpoint::find_cut(cuts, name);
    tensor.copy_(cut ? cut->part_of(theirs[name]) : theirs[name]);
  }
}

void CutModel::share_random() {
  at::Generator random = at::globalContext().defaultGenerator(at::kCPU);
  const Tensor state = random.get_state();
  members().broadcast(bytes_of(state), 0).or_throw("the state of random numbers");
  random.set_state(state);
}

// Averages over more than two groups, and all that travel in a code, depend on where in a message a
// number lies and on what lies beside it, and parts may differ in length: what all of a group have
// stays the same to the bit.
void CutModel::stepped() {
  if (groups() == 1) return;
  torch::NoGradGuard no_grad;
  std::vector<Tensor> flat;
  for (const sync::NamedTensor& each : uncut_) flat.push_back(each.tensor.flatten());
  const Tensor all = torch::cat(flat);
  members().broadcast(buffer_of(all), 0).or_throw("what all of a group have");
  std::int64_t at = 0;
  for (const sync::NamedTensor& each : uncut_) {
    Tensor tensor = each.tensor;
    tensor.copy_(all.narrow(0, at, tensor.numel()).view(tensor.sizes()));
    at += tensor.numel();
  }
}

Tensor CutModel::scores(const Tensor& input, bool /*at_first*/) {
  const Tensor scores = model_->forward(input);
  return tells() ? scores : Tensor();
}

checkpoint::TensorsByName CutModel::gather() {
  torch::NoGradGuard no_grad;
  checkpoint::TensorsByName whole;
  if (group() != 0) return whole;
  const auto cuts = parallel::cuts_of(*model_);
  for (const auto& [name, tensor] : sync::parameters_of(*model_)) {
    const auto found = cuts.find(name);
    const Tensor own = tensor.detach().contiguous();
    if (found == cuts.end()) {
      if (tells()) whole[name] = own.clone();
      continue;
    }
    if (!tells()) {
      members().send(bytes_of(own), 0).or_throw("the whole model");
      continue;
    }
    const parallel::TensorCut& cut = found->second;
    const Tensor all = torch::empty(parallel::whole_shape(own.sizes(), cut), own.options());
    for (int rank = 0; rank < tensor_.size(); ++rank) {
      Tensor part = own;
      if (rank > 0) {
        auto shape = own.sizes().vec();
        shape.at(static_cast<std::size_t>(cut.dimension)) = cut.size(rank, tensor_.size());
        part = torch::empty(shape, own.options());
        members().recv(bytes_of(part), rank).or_throw("the whole model");
      }
      parallel::put_part(all, part, cut, rank, tensor_.size());
    }
    whole[name] = all;
  }
  return whole;
}

std::int64_t CutModel::parameters() const {
  std::int64_t count = 0;
  for (const sync::NamedTensor& each : uncut_) count += each.tensor.numel();
  for (const auto& [name, cut] : cuts()) count += c10::multiply_integers(cut.whole);
  return count;
}

std::string CutModel::describe() const {
  const parallel::GridShape& shape = grid_.shape();
  std::vector<std::string> groups;
  for (int group = 0; group < shape.data; ++group)
    groups.push_back(fmt::format("ranks {}-{}", rank_at({group, 0, 0}, shape),
                                 rank_at({group, 0, shape.tensor - 1}, shape)));
  return fmt::format("{} ranks compute a model together: {}", shape.tensor,
                     fmt::join(groups, "; "));
}

}  // namespace asup::train
