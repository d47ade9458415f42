#include "asup/train/state/spread_model.h"

#include <algorithm>

namespace asup::train {

std::vector<std::string> SpreadModel::written() {
  if (group() != 0) return {};
  std::vector<std::string> names;
  for (const sync::NamedTensor& each : parts().counted(sync::parameters_of(module())))
    names.push_back(each.name);
  return names;
}

void SpreadModel::drop_copies(std::vector<sync::NamedTensor>& state) const {
  std::erase_if(state, [&](const sync::NamedTensor& each) {
    return std::ranges::any_of(
        copies_, [&](const std::string& copy) { return each.name.ends_with("/" + copy); });
  });
}

}  // namespace asup::train
