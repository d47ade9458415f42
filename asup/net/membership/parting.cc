#include "asup/net/membership/parting.h"

#include <fmt/format.h>

namespace asup::net {

std::string Parting::why_not_go_on() const {
  if (may_go_on()) return "";
  return fmt::format(
      "{} of {} workers are left{}, which is no majority: the others may go on by themselves. "
      "Resume from the last checkpoint once it is known that they do not",
      left, before, with_coordinator ? "" : " without the coordinator");
}

}  // namespace asup::net
