// Training through parameter servers as ways of training (server_replica.h): at a pace that is
// chosen (ParameterServer), and at one that adapts (Asup). Their options, and what follows.
#pragma once

#include <string>

#include "asup/config/value.h"
#include "asup/sync/gradients/compress.h"
#include "asup/sync/non_finite_setting.h"
#include "asup/sync/server/paces.h"
#include "asup/sync/server/server_replica.h"
#include "asup/sync/way.h"

namespace asup {

constexpr auto names_of(Merge) {
  using enum Merge;
  return std::to_array<config::Named<Merge>>({{"none", none}, {"easgd", easgd}, {"mean", mean}});
}
constexpr auto names_of(Unshared) {
  using enum Unshared;
  return std::to_array<config::Named<Unshared>>(
      {{"average", average}, {"first", first}, {"own", own}});
}
struct ParameterServer {
  Pace pace{};
  Merge merge = Merge::none;
  std::int64_t every = 4;   // merge: steps between two exchanges of parameters
  double elasticity = 0.9;  // merge easgd, as Zhang et al. (2015) have it
  double compensation = 0;
  bool stale_lr = false;
  NonFinite non_finite = NonFinite::skip;
  std::string local_parameters{};  // a,b
  Unshared evaluate_with = Unshared::average;
  double bucket_mb = 25;
  CompressSetting compress = Compress::none;         // a code
  Feedback compress_feedback = Feedback::automatic;  // of gradients; parameters always have it
};

// The ASU-P system: servers, and a pace that adapts to what is measured.
struct Asup {
  ParameterServer server{.pace = Adaptive{}};
  // asup train: else it goes on without servers where that is measured to be much faster.
  bool keep_servers = false;
};

const Way& way_of(const ParameterServer&);
const Way& way_of(const Asup&);

// What the replica is made with, but for the work and what servers begin with.
ServerReplicaOptions server_options(const ParameterServer& options, Seconds timeout);

}  // namespace asup
