#include "asup/parallel/pipeline/stage_tensors.h"

#include <algorithm>
#include <limits>
#include <map>

#include "asup/base/error.h"

namespace asup::parallel {
namespace {

int stage_of(std::size_t layer, const Cut& cut) {
  return static_cast<int>(std::upper_bound(cut.begin(), cut.end(), layer) - cut.begin()) - 1;
}

void add_once(std::vector<int>& numbers, int number) {
  const auto place = std::lower_bound(numbers.begin(), numbers.end(), number);
  if (place == numbers.end() || *place != number) numbers.insert(place, number);
}

void require_names(const torch::nn::Module& model, const std::vector<Layer>& layers) {
  const auto has = [&](const std::string& name) {
    const Layer probe{"", {}, {name}};
    const auto used = [&](const auto& item) { return probe.uses(item.key()); };
    const auto parameters = model.named_parameters();
    const auto buffers = model.named_buffers();
    const auto modules = model.named_modules("", /*include_self=*/false);
    return std::any_of(parameters.begin(), parameters.end(), used) ||
           std::any_of(buffers.begin(), buffers.end(), used) || modules.contains(name);
  };
  for (const Layer& layer : layers)
    for (const std::string& name : layer.tensors)
      require(has(name), "layer {} uses '{}', and the model has no tensor or module of that name",
              layer.name, name);
}

}  // namespace

Cut cut_evenly(const std::vector<double>& costs, std::size_t stages) {
  const std::size_t layers = costs.size();
  check(layers >= stages && stages > 0, "{} stages of {} layers", stages, layers);
  std::vector<double> before(layers + 1, 0);  // the cost of so many first layers
  for (std::size_t i = 0; i < layers; ++i) before[i + 1] = before[i] + costs[i];
  // best[s][n]: of the dearest of s stages that have the first n layers; from[s][n]: where the last
  // of them begins.
  const double none = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> best(stages + 1, std::vector<double>(layers + 1, none));
  std::vector<std::vector<std::size_t>> from(stages + 1, std::vector<std::size_t>(layers + 1, 0));
  best[0][0] = 0;
  for (std::size_t s = 1; s <= stages; ++s)
    for (std::size_t n = s; n <= layers; ++n)
      for (std::size_t begin = s - 1; begin < n; ++begin) {
        const double cost = std::max(best[s - 1][begin], before[n] - before[begin]);
        if (cost < best[s][n]) {
          best[s][n] = cost;
          from[s][n] = begin;
        }
      }
  Cut cut(stages + 1, layers);
  for (std::size_t s = stages; s > 0; --s) cut[s - 1] = from[s][cut[s]];
  return cut;
}

torch::nn::Module& OwnTensors::home_of(const std::string& name, std::string& last) {
  Module* home = this;
  std::size_t begin = 0;
  for (std::size_t dot; (dot = name.find('.', begin)) != std::string::npos; begin = dot + 1) {
    const std::string part = name.substr(begin, dot - begin);
    const auto children = home->named_children();
    home = children.contains(part)
               ? children[part].get()
               : home->register_module(part, std::make_shared<Module>(part)).get();
  }
  last = name.substr(begin);
  return *home;
}

void OwnTensors::add_parameter(const std::string& name, const torch::Tensor& tensor) {
  std::string last;
  Module& home = home_of(name, last);
  home.register_parameter(last, tensor, tensor.requires_grad());
}

void OwnTensors::add_buffer(const std::string& name, const torch::Tensor& tensor) {
  std::string last;
  Module& home = home_of(name, last);
  home.register_buffer(last, tensor);
}

void OwnTensors::train(bool on) {
  Module::train(on);
  model_->train(on);
}

bool StageTensor::is_on(int rank) const {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

StageTensors::StageTensors(const torch::nn::Module& model, const std::vector<Layer>& layers,
                           const Cut& cut, const PipelineSpec& spec) {
  require_names(model, layers);
  std::map<const void*, std::size_t> known;
  const auto look = [&](const auto& items, bool parameters) {
    for (const auto& item : items) {
      const torch::Tensor& tensor = item.value();
      const auto [place, is_new] = known.try_emplace(tensor.unsafeGetTensorImpl(), all_.size());
      if (is_new)
        all_.push_back(
            {item.key(), tensor, tensor.sizes().vec(), tensor.scalar_type(), parameters, {}, {}});
      StageTensor& entry = all_[place->second];
      for (std::size_t i = 0; i < layers.size(); ++i) {
        if (!layers[i].uses(item.key())) continue;
        const int stage = stage_of(i, cut);
        add_once(entry.stages, stage);
        add_once(entry.ranks, spec.rank_of(stage));
      }
    }
  };
  look(model.named_parameters(), true);
  look(model.named_buffers(), false);
  for (const StageTensor& entry : all_)
    require(!entry.stages.empty(),
            "no layer uses the model's {}: name it in the layer that computes with it", entry.name);
}

std::vector<torch::Tensor> StageTensors::of(int stage, bool parameters) const {
  std::vector<torch::Tensor> tensors;
  for (const StageTensor& entry : all_)
    if (entry.is_parameter == parameters &&
        std::find(entry.stages.begin(), entry.stages.end(), stage) != entry.stages.end())
      tensors.push_back(entry.tensor);
  return tensors;
}

void StageTensors::keep_only(int rank) {
  const torch::NoGradGuard no_grad;
  for (StageTensor& entry : all_) {
    if (entry.is_on(rank)) continue;
    entry.tensor.requires_grad_(false);
    entry.tensor.set_data(torch::empty({0}, entry.tensor.options()));
    entry.tensor = torch::Tensor();
  }
}

}  // namespace asup::parallel
