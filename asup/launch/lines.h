// Cuts what a rank writes into lines, so that lines of different ranks do not mix. One stream, one
// thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace asup::launch {

class Lines {
 public:
  // The lines that are whole now, without their ends. Text before a carriage return is overwritten,
  // as on a terminal, so a progress bar appears in its last state. Endless lines are cut.
  std::vector<std::string> feed(std::string_view bytes);
  // What came after the last line's end, when no more will.
  std::vector<std::string> finish();

 private:
  std::string pending_;
};

}  // namespace asup::launch
