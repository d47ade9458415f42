// A run that changes its way of staying in step: `sync` at first, `then` from the moment `at` on.
// Pure; safe from any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "asup/train/config.h"
#include "asup/train/schedule.h"

namespace asup::train {

enum class Phase : std::uint8_t { first, second };

inline bool has_phases(const TrainConfig& config) { return config.then != "none"; }

// What counts in a phase: `sync` is its way, and settings that the other way alone has are as if
// nobody had said them. A setting that both have counts in both.
TrainConfig of_phase(const TrainConfig& config, Phase phase);

// The step after which the second phase begins; nothing where the loss says so, and where there is
// none. Throws BadInput where it is not within the run.
std::optional<std::int64_t> switch_step(const TrainConfig& config, const RunLength& length);

// The same as it counts in a run of this length: the first phase stops where the second begins.
TrainConfig of_phase(const TrainConfig& config, Phase phase, const RunLength& length);

// Whether any phase keeps parameters on servers.
bool needs_servers(const TrainConfig& config);

// Throws BadInput for phases that cannot be, whatever the length of the run.
void check_phases(const TrainConfig& config);

}  // namespace asup::train
