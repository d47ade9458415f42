// Whether a benchmark will be able to write what it is asked for. Functions only.
#pragma once

#include <string>

namespace asup::bench {

// Hours may pass before the file is written. "" is none. Throws BadInput that names the flag.
void check_can_write(const std::string& flag, const std::string& file);

}  // namespace asup::bench
