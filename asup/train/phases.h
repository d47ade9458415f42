// A run that changes its strategy: `strategy` at first, `then` from the moment `at` on. Pure; safe
// from any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "asup/train/config.h"
#include "asup/train/schedule.h"

namespace asup::train {

enum class Phase : std::uint8_t { first, second };

inline bool has_phases(const TrainConfig& config) { return config.then.has_value(); }
// The loss says when it changes.
bool changes_at_stall(const TrainConfig& config);

// Whether batches may be divided by workers' speeds (`--balance`).
bool can_balance(const Strategy& strategy);

// What counts in a phase: `strategy` is its own.
TrainConfig of_phase(const TrainConfig& config, Phase phase);

// Whether the servers' advice to go on without them can be followed: the run is not to change
// otherwise, and neither parameters nor the promise to go on after a loss need servers.
bool can_leave_servers(const TrainConfig& config);

// The step after which the second phase begins; nothing where the loss says so, and where there is
// none. Throws BadInput where it is not within the run.
std::optional<std::int64_t> switch_step(const TrainConfig& config, const RunLength& length);

// The same as it counts in a run of this length: the first phase stops where the second begins.
TrainConfig of_phase(const TrainConfig& config, Phase phase, const RunLength& length);

// Whether any phase keeps parameters on servers.
bool needs_servers(const TrainConfig& config);

// Throws BadInput for phases that cannot be, whatever the length of the run. needs: has_phases()
void check_phases(const TrainConfig& config);

}  // namespace asup::train
