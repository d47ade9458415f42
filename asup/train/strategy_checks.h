// What the parts of a strategy are checked by. Functions only.
#pragma once

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>

#include "asup/base/error.h"
#include "asup/train/strategy.h"

namespace asup::train {

// A choice that would do nothing is a mistake that somebody should hear of: throws BadInput unless
// it is as in Strategy{}.
template <typename T>
void require_unused(std::string_view name, T Strategy::*member, const Strategy& strategy,
                    const std::string& because) {
  require(strategy.*member == Strategy{}.*member, "{} = {} has no effect: {}. Leave it out.", name,
          strategy.*member, because);
}

template <std::size_t count>
void require_one_of(std::string_view name, const std::string& value,
                    const std::array<const char*, count>& values) {
  require(std::find(values.begin(), values.end(), value) != values.end(), "{} = '{}' is none of {}",
          name, value, fmt::join(values, ", "));
}

}  // namespace asup::train
