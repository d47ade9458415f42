// A run as its folder shows it, however far it came: its end, or else what it has written so far.
// Functions only; safe from any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "asup/report/records.h"

namespace asup::report {

enum class RunStatus : std::uint8_t {
  done,
  stopped,  // as somebody asked; it can be resumed
  running,
  failed,
  killed  // it ended without a word; or it runs where this host does not see its lock
};

struct FoundRun {
  RunStatus status = RunStatus::killed;
  std::string failure;  // why it failed
  Summary summary;      // where the run has no end: of the rows so far, and figures are 0 or NaN
};

// Throws BadInput where the folder is no run, or one that this version of asup cannot read.
FoundRun read_run(const std::string& folder);

// Of one of its files, which must hold an object; throws BadInput.
nlohmann::ordered_json read_json(const std::string& path);

std::string_view name_of(RunStatus status);
// "failed after step 12 of 40: …", for people; empty where the run is done.
std::string describe_end(const FoundRun& run);

}  // namespace asup::report
