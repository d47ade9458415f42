// What becomes of gradients that hold infinities or NaN. Values only; safe from any thread.
#pragma once

#include <string_view>

namespace asup {

enum class NonFinite {
  skip,   // the step, or the push, is left out and counted
  fatal,  // the job ends
  apply   // as if they were numbers
};
constexpr std::string_view name_of(NonFinite policy) {
  switch (policy) {
    case NonFinite::skip:
      return "skip";
    case NonFinite::fatal:
      return "fatal";
    case NonFinite::apply:
      return "apply";
  }
  return "?";
}

}  // namespace asup
