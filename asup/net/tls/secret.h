// What two ends of a connection have in common before it is encrypted. Values only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace asup::net {

enum class Side : std::uint8_t { connector, acceptor };

using TlsSecret = std::array<std::byte, 32>;

}  // namespace asup::net
