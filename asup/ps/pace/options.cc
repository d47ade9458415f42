#include "asup/ps/pace/options.h"

#include <array>
#include <string>

#include "asup/base/error.h"
#include "asup/base/suggest.h"

namespace asup::ps::pace {
namespace {

template <typename Value, std::size_t Count>
Value find(std::string_view what, std::string_view name, const std::array<Value, Count>& values) {
  std::array<std::string, Count> names;
  std::string list;
  for (std::size_t i = 0; i < Count; ++i) {
    if (name == name_of(values[i])) return values[i];
    names[i] = name_of(values[i]);
    list += (i == 0 ? "" : ", ") + names[i];
  }
  throw BadInput(fmt::format("there is no {} '{}'{}; choose one of: {}", what, name,
                             did_you_mean(name, names), list));
}

}  // namespace

Kind kind_of(std::string_view name) {
  return find("pace", name,
              std::array{Kind::bsp, Kind::ssp, Kind::asp, Kind::kasync, Kind::adaptive});
}

NonFinite non_finite_of(std::string_view name) {
  return find("policy for values that are not finite", name,
              std::array{NonFinite::skip, NonFinite::fatal, NonFinite::apply});
}

void require_sense(const Options& options, int workers) {
  require(workers >= 1, "{} workers cannot train; there must be at least one", workers);
  require(options.staleness >= 0, "a staleness of {} pushes makes no sense; use 0 or more",
          options.staleness);
  require(options.backup >= 0 && options.backup < workers,
          "{} backup workers of {}: somebody must be waited for; use 0 to {}", options.backup,
          workers, workers - 1);
  require(options.backup == 0 || options.kind == Kind::bsp,
          "pace {} waits for nobody, so it has no backup workers; leave them out, or use pace bsp",
          name_of(options.kind));
  require(options.gather >= 1 && options.gather <= workers,
          "an update of {} pushes from {} workers; gather 1 to {}", options.gather, workers,
          workers);
}

}  // namespace asup::ps::pace
