// Whether training is to go on without the servers: where that has looked much faster for a while,
// by what is measured through them (elsewhere.h). One thread at a time.
#pragma once

#include <optional>

#include "asup/ps/pace/choice.h"
#include "asup/ps/pace/measured.h"

namespace asup::ps::pace {

class Leaving {
 public:
  struct Here {
    double step_seconds = 0;    // of a step through the servers, longer where gradients are late
    double update_seconds = 0;  // of an update, for one server alone
    double steps_left = 0;
  };
  // How to go on, once it is sure that it pays.
  std::optional<Elsewhere> look(const Workers& workers, const Here& here);

  // It has looked better, and not yet for long enough.
  bool is_likely() const { return times_ > 0; }

 private:
  int times_ = 0;  // in a row
};

// Makes the choice to stay with them, whose steps take so long, one to leave.
void leave(Choice& choice, const Elsewhere& elsewhere, double step_seconds);

}  // namespace asup::ps::pace
