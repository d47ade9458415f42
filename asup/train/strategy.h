// The declared choice of how workers stay in step. Values only; safe from any thread.
#pragma once

#include <cstdint>
#include <string>

#include "asup/base/clock.h"
#include "asup/net/identity.h"
#include "asup/train/config.h"

namespace asup {

// Members are named as flags and TOML keys are; train/settings.h says what each means.
struct Strategy {
  std::string sync = "allreduce";
  std::string pace = "auto";   // of sync server: bsp, ssp, asp or adaptive
  std::int64_t staleness = 0;  // of pace ssp; 0: 4
  std::int64_t backup = 0;     // workers that pace bsp does not wait for
  std::string merge = "none";  // of sync server, as are the following: none, easgd or mean
  std::int64_t every = 0;      // of a merge; 0: 4
  double elasticity = 0;       // of merge easgd; 0: 0.9
  double compensation = 0;
  bool stale_lr = false;
  std::string non_finite = "skip";  // skip, fatal or apply
  bool freeze_pace = false;
  std::string local_parameters{};         // a,b
  std::string evaluate_with = "average";  // average, first or own
  std::string resume_servers{};           // what ServerReplica::save() left; in programs alone
  std::string buffers = "local";          // local, broadcast or average
  double bucket_mb = 25;
  std::string algorithm = "auto";  // of the all-reduce
  Seconds timeout{300};

  // What `asup run`'s flags said, through the environment: ASUP_STRATEGY names a TOML file with
  // some of the members as keys; ASUP_SYNC, ASUP_PACE, …, ASUP_BUCKET_MB and so on go before it.
  // Throws BadInput that says which variable or line is wrong.
  static Strategy from(const net::Environment& environment);

  // With what was left open filled in: sync asup is the server at an adaptive pace. Throws BadInput
  // for choices that do not go together.
  Strategy settled() const;

  bool needs_servers() const { return sync == "server" || sync == "asup"; }
  // The others go on when a worker is lost.
  bool survives_loss() const { return needs_servers(); }
};

namespace train {
// Settled. Throws BadInput for what this version does not have, too.
Strategy strategy_of(const TrainConfig& config);
}  // namespace train

}  // namespace asup
