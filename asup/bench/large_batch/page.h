// The page of `asup bench large-batch`. Functions only.
#pragma once

#include <string>

#include "asup/bench/large_batch/rows.h"

namespace asup::bench {

// A drawing of accuracy over the size of a batch, a line for each way, and the table. `title` says
// what was trained and how.
std::string large_batch_page(const std::string& title, const BatchTable& table);

}  // namespace asup::bench
