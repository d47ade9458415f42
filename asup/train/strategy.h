// The declared choice of how workers stay in step. Values only; safe from any thread.
#pragma once

#include <cstdint>
#include <string>

#include "asup/base/clock.h"
#include "asup/net/membership/join_options.h"
#include "asup/train/config.h"

namespace asup {

// Members are named as flags and TOML keys are; train/settings.h says what each means.
struct Strategy {
  std::string sync = "allreduce";
  std::string pace = "auto";   // of sync server: bsp, ssp, asp or adaptive
  std::int64_t staleness = 0;  // of pace ssp; 0: 4
  std::int64_t backup = 0;     // workers that pace bsp does not wait for
  std::string merge = "none";  // of sync server, as are the following: none, easgd or mean
  double elasticity = 0;       // of merge easgd; 0: 0.9
  double compensation = 0;
  bool stale_lr = false;
  std::string non_finite = "skip";  // skip, fatal or apply
  bool freeze_pace = false;
  std::string local_parameters{};         // a,b
  std::string evaluate_with = "average";  // average, first or own
  std::string resume_servers{};           // what ServerReplica::save() left; in programs alone
  std::string every = "usual";            // steps between exchanges of models; auto, usual
  std::string local_after = "0";          // of sync local: steps, or a share of the run: 30%
  std::string merge_state = "average";    // of sync local: average, keep or reset
  std::string graph = "ring";             // of sync gossip and adpsgd
  double outer_lr = 0.7;                  // of sync diloco, as are the following
  double outer_momentum = 0.9;
  std::int64_t outer_overlap = 0;  // steps
  std::int64_t fragments = 1;
  std::string exchange_dtype = "f32";    // f32 or bf16
  double jitter_ms = 0;                  // of all ways in which workers step on their own
  double round_seconds = 0;              // of sync local and adpsgd, for asup train; 0: none
  std::string merge_deadline = "usual";  // of rounds: seconds, or usual
  std::string buffers = "local";         // local, broadcast or average
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

  // Throws BadInput for a way of staying in step that this version does not have.
  void require_available() const;

  bool needs_servers() const { return sync == "server" || sync == "asup"; }
  // Workers step on their own, and exchange models instead of gradients.
  bool has_own_steps() const {
    return sync == "local" || sync == "diloco" || sync == "gossip" || sync == "adpsgd";
  }
  // And no step waits for another worker.
  bool has_own_pace() const { return sync == "adpsgd" || round_seconds > 0; }
  // The others go on when a worker is lost.
  bool survives_loss() const { return needs_servers() || has_own_steps(); }
};

namespace train {
// Settled. Throws BadInput for what this version does not have, too.
Strategy strategy_of(const TrainConfig& config);
}  // namespace train

}  // namespace asup
