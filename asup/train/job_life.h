// Which life of its job this is, where the launcher starts a job again that has failed
// (`--restarts`). A value.
#pragma once

#include <cstdint>
#include <string>

namespace asup::train {

struct JobLife {
  std::string job{};         // its name, the same in all its lives; "": it has this one only
  std::int64_t restart = 0;  // how often it was started again
};

}  // namespace asup::train
