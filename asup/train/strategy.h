// The declared choice of how workers stay in step. Values only; safe from any thread.
#pragma once

#include <string>

#include "asup/base/clock.h"
#include "asup/net/identity.h"
#include "asup/train/config.h"

namespace asup {

// Members are named as flags and TOML keys are; train/settings.h says what each means.
struct Strategy {
  std::string sync = "allreduce";
  std::string buffers = "local";  // local, broadcast or average
  double bucket_mb = 25;
  std::string algorithm = "auto";  // of the all-reduce
  Seconds timeout{300};

  // What `asup run`'s flags said, through the environment: ASUP_STRATEGY names a TOML file with
  // some of the keys sync, buffers, bucket-mb, algorithm and timeout; ASUP_SYNC, ASUP_BUFFERS,
  // ASUP_BUCKET_MB, ASUP_ALGORITHM and ASUP_TIMEOUT go before it. Throws BadInput that says which
  // variable or line is wrong.
  static Strategy from(const net::Environment& environment);
};

namespace train {
Strategy strategy_of(const TrainConfig& config);
}

}  // namespace asup
