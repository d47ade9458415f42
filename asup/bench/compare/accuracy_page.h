// The report of `asup bench time-to-accuracy`: a page without scripts that holds all it needs.
// Functions only.
#pragma once

#include <string>
#include <vector>

#include "asup/bench/compare/accuracy_rows.h"

namespace asup::bench {

// The table and two drawings: accuracy over seconds, and over the bytes that a worker sent.
// `title` says what was trained and where.
std::string accuracy_page(const std::string& title, const AccuracyScene& scene,
                          const std::vector<WayRuns>& ways);

}  // namespace asup::bench
