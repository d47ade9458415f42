// The setting `non-finite`, which every way has. Values only; safe from any thread.
#pragma once

#include "asup/base/non_finite.h"
#include "asup/config/setting.h"

namespace asup {

constexpr auto names_of(NonFinite) {
  using enum NonFinite;
  return std::to_array<config::Named<NonFinite>>(
      {{"skip", skip}, {"fatal", fatal}, {"apply", apply}});
}

// Of options with a member non_finite.
template <typename Options>
config::Setting non_finite_setting() {
  return {"non-finite", config::field<&Options::non_finite>(),
          "gradients with infinities or NaN are left out and counted, end the job, or are applied"};
}

}  // namespace asup
