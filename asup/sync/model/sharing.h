// Which parameters of a model its workers share, and which each trains for itself. Values only.
#pragma once

#include <string>
#include <vector>

#include "asup/sync/model/tensors.h"
#include "asup/sync/model/trained_model.h"

namespace asup::sync {

// Of those that need a gradient and that the optimizer has, by who trains them.
struct Sharing {
  std::vector<NamedTensor> shared, local;
};

// `local`: whole names, or with a dot at its end what names begin with. Throws BadInput where one
// names no parameter, where nothing is left to share, and for shared ones that are not f32.
Sharing share(const TrainedModel& model, const std::vector<std::string>& local);

// All that workers have alike: all but the local ones.
std::vector<NamedTensor> common_parameters(const TrainedModel& model, const Sharing& sharing);

// "a,b" as a list.
std::vector<std::string> split_names(const std::string& names);

}  // namespace asup::sync
