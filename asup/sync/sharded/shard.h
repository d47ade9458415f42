// What of training each rank keeps a part of only (ZeRO; Rajbhandari et al., ZeRO: memory
// optimizations toward training trillion parameter models, SC 2020). Values only.
#pragma once

#include "asup/config/value.h"

namespace asup {

enum class Shard {
  none,
  optimizer,  // the optimizer's state: stage 1
  gradients,  // and the gradients: stage 2
  parameters  // and the parameters: stage 3
};

namespace sync {
// Each stage cuts what the one before cuts.
constexpr bool cuts_gradients(Shard shard) { return shard >= Shard::gradients; }
}  // namespace sync

constexpr auto names_of(Shard) {
  using enum Shard;
  return std::to_array<config::Named<Shard>>({{"none", none},
                                              {"optimizer", optimizer},
                                              {"gradients", gradients},
                                              {"parameters", parameters}});
}

}  // namespace asup
