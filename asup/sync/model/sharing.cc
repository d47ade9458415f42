#include "asup/sync/model/sharing.h"

#include <algorithm>
#include <sstream>
#include <unordered_set>

#include "asup/base/error.h"

namespace asup::sync {
namespace {

// A whole name, or with a dot at its end all names that begin so.
bool matches(const std::string& pattern, const std::string& name) {
  return pattern.ends_with('.') ? name.starts_with(pattern) : name == pattern;
}

}  // namespace

Sharing share(const TrainedModel& model, const std::vector<std::string>& local) {
  std::unordered_set<const void*> optimized;
  for (const auto& group : model.optimizer().param_groups())
    for (const torch::Tensor& tensor : group.params())
      optimized.insert(tensor.unsafeGetTensorImpl());
  const auto is_local = [&](const std::string& name) {
    return std::any_of(local.begin(), local.end(),
                       [&](const std::string& pattern) { return matches(pattern, name); });
  };
  Sharing sharing;
  for (const auto& parameter : model.trainable())
    if (optimized.contains(parameter.tensor.unsafeGetTensorImpl()))
      (is_local(parameter.name) ? sharing.local : sharing.shared).push_back(parameter);
  for (const std::string& pattern : local)
    require(std::any_of(sharing.local.begin(), sharing.local.end(),
                        [&](const NamedTensor& own) { return matches(pattern, own.name); }),
            "the model trains no parameter '{}', which is to stay on the worker; names are such as "
            "{}, or what they begin with and a dot",
            pattern, model.trainable().front().name);
  require(
      !sharing.shared.empty(),
      "no parameter is left to share: the optimizer has none that is not to stay on the worker");
  for (const auto& [name, tensor] : sharing.shared)
    require(dtype_of(tensor) == Dtype::f32,
            "parameter {} is {}: servers keep f32 parameters only; convert the model, or let the "
            "parameter stay on the worker",
            name, describe(tensor));
  return sharing;
}

std::vector<NamedTensor> common_parameters(const TrainedModel& model, const Sharing& sharing) {
  std::vector<NamedTensor> common;
  for (const auto& parameter : model.parameters())
    if (std::none_of(sharing.local.begin(), sharing.local.end(),
                     [&](const auto& own) { return own.tensor.is_same(parameter.tensor); }))
      common.push_back(parameter);
  return common;
}

std::vector<std::string> split_names(const std::string& names) {
  std::vector<std::string> list;
  std::istringstream in(names);
  for (std::string name; std::getline(in, name, ',');) list.push_back(name);
  return list;
}

}  // namespace asup::sync
