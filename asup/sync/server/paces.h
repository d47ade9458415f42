// The paces of training through servers, as rows of a table: who waits for whom. Values only.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "asup/config/setting.h"
#include "asup/ps/pace/options.h"
#include "asup/sync/way.h"

namespace asup {

// All wait for all, but for so many backup workers: the first of the others make the whole batch.
struct Bsp {
  std::int64_t backup = 0;
};
// Who has taken so many more steps of its own than the slowest waits for it.
struct Ssp {
  std::int64_t staleness = 4;
};
// Nobody waits.
struct Asp {};
// An update takes the next so many pushes, whoever they are from.
struct KAsync {
  std::int64_t gather = 2;
};
// Bounds are set while training, by what is measured.
struct Adaptive {
  bool freeze_pace = false;  // the first choice stays, for experiments
};

// One of them, with its options.
struct Pace {
  std::variant<Bsp, Ssp, Asp, KAsync, Adaptive> row{};

  Pace() = default;
  template <typename Row>
  requires std::is_constructible_v<std::variant<Bsp, Ssp, Asp, KAsync, Adaptive>, Row> Pace(
      Row chosen)
      : row(std::move(chosen)) {}  // NOLINT: `.pace = Ssp{4}`

  static constexpr std::string_view kForm = "bsp|ssp|asp|kasync|adaptive";
  static constexpr std::string_view kWanted = "one of bsp, ssp, asp, kasync, adaptive";
  static std::optional<Pace> from_text(std::string_view text);
  std::string to_text() const { return std::string(name()); }
  std::string_view name() const;

  config::Section section();  // of the chosen one's own settings
  bool has_late_gradients() const { return !std::holds_alternative<Bsp>(row); }
  ps::pace::Options options() const;
};

// Of all paces, by the pace that each is of.
std::vector<NestedSettings> settings_of_paces();

}  // namespace asup
