#include "asup/data/image/workspace.h"

#include <algorithm>

namespace asup::data::image {

int reduction_for(const Crop& crop) {
  const double step = std::min(crop.across.step, crop.down.step);
  for (const int denominator : {8, 4, 2})
    if (step >= denominator) return denominator;
  return 1;
}

void Workspace::render(Size picture, const Crop& crop, const Placement& placement,
                       const Levels& levels, float* out) {
  const int denominator = decoder_->can_reduce() ? reduction_for(crop) : 1;
  const auto reduce = [&](const Axis& axis, int side) {
    return axis.reduced_by(denominator, reduced(side, denominator));
  };
  resampler.begin(reduce(crop.across, picture.width), reduce(crop.down, picture.height), placement,
                  levels, out);
  decoder_->decode(denominator, resampler.window(), resampler);
}

Workspaces::Lent Workspaces::take() {
  std::lock_guard lock(mutex_);
  if (free_.empty()) return Lent(new Workspace, GiveBack{this});
  Workspace* const space = free_.back().release();
  free_.pop_back();
  return Lent(space, GiveBack{this});
}

void Workspaces::put(Workspace* space) {
  std::lock_guard lock(mutex_);
  free_.emplace_back(space);
}

}  // namespace asup::data::image
