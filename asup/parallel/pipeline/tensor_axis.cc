#include "asup/parallel/pipeline/tensor_axis.h"

#include <span>

#include "asup/base/error.h"
#include "asup/tensors/tensors.h"

namespace asup::parallel {

TensorAxis::TensorAxis(const torch::nn::Module& model, Communicator* group) : group_(group) {
  const auto parameters = model.named_parameters();
  for (const auto& [name, cut] : cuts_of(model)) {
    const torch::Tensor* part = parameters.find(name);
    if (!part) continue;
    const std::int64_t here = part->size(cut.dimension);
    if (group_) {
      const std::int64_t expected = cut.size(group_->rank(), group_->size());
      require(here == expected,
              "{} has {} of {} here, and rank {} of the {} of PipelineOptions::tensor would have "
              "{}: pass the communicator of the ranks that its layers are cut over",
              name, here, cut.whole, group_->rank(), group_->size(), expected);
    }
    if (here != cut.whole) cuts_.emplace(name, cut);
  }
}

bool TensorAxis::counts(const std::string& parameter) const {
  return !group_ || group_->rank() == 0 || cuts_.contains(parameter);
}

void TensorAxis::require_group(const char* without) const {
  require(group_ || cuts_.empty(),
          "{} is cut over ranks that compute it together, and {}: pass their communicator as "
          "PipelineOptions::tensor (Grid::tensor() has it)",
          cuts_.empty() ? "" : cuts_.begin()->first, without);
}

void TensorAxis::sum(double& number, const char* what) const {
  if (group_ && group_->size() > 1)
    group_->all_reduce(buffer_of(std::span(&number, 1))).or_throw(what);
}

void TensorAxis::put_together(std::map<std::string, torch::Tensor>& tensors) const {
  if (!group_ || group_->size() == 1) return;
  for (auto& [name, tensor] : tensors)
    if (const auto cut = cuts_.find(name); cut != cuts_.end())
      tensor = parallel::put_together(*group_, tensor, cut->second, "the whole model");
  if (group_->rank() > 0) tensors.clear();
}

}  // namespace asup::parallel
