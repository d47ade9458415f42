#include "asup/ps/noise_watch.h"

namespace asup::ps {

void NoiseWatch::pushed(const pace::Push& push, std::uint64_t samples) {
  if (samples > 0)
    pushes_[{push.worker, push.number}] = {push.version, static_cast<double>(samples)};
}

void NoiseWatch::left(int worker) {
  std::erase_if(pushes_, [&](const auto& push) { return push.first.first == worker; });
}

bool NoiseWatch::updates(const pace::Update& update) {
  double inverse = 0, spread = 0, weights = 0;
  std::optional<std::uint64_t> version;
  bool usable = update.parts.size() > 1;
  for (const pace::Update::Part& part : update.parts) {
    const auto found = pushes_.extract({part.worker, part.number});
    usable = usable && !found.empty() && part.weight > 0;
    if (!usable) continue;
    const Known& push = found.mapped();
    usable = version.value_or(push.version) == push.version;
    version = push.version;
    inverse += 1 / push.samples;
    spread += part.weight * part.weight / push.samples;
    weights += part.weight;
  }
  if (!usable || updates_++ % every_ != 0) return false;
  comparisons_[update.version] = {
      static_cast<double>(update.parts.size()) / inverse, weights * weights / spread, {}, 0};
  return true;
}

void NoiseWatch::found(std::uint64_t version, const NoiseSquares& squares) {
  const auto comparison = comparisons_.find(version);
  if (comparison == comparisons_.end()) return;
  Comparison& of = comparison->second;
  of.squares += squares;
  if (++of.servers < servers_) return;
  estimator_.add(of.small_samples, of.squares.pushes, of.large_samples, of.squares.mean);
  comparisons_.erase(comparison);
}

}  // namespace asup::ps
