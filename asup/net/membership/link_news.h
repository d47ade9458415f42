// What a member's transport finds out about its link to another. Values only.
#pragma once

#include <cstdint>

namespace asup::net {

enum class LinkNews : std::uint8_t {
  quiet,     // nothing that is sent is acknowledged, for a while (host_probe.h)
  heard,     // it is, after all
  ended,     // without goodbye
  breached,  // since the other does not keep to the protocol
};

}  // namespace asup::net
