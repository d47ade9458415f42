#include "asup/net/membership/tls_mode.h"

#include <sys/socket.h>

#include "asup/base/error.h"
#include "asup/net/membership/address.h"

namespace asup::net {

TlsMode tls_mode_of(std::string_view text, std::string_view what) {
  for (const TlsMode mode : {TlsMode::automatic, TlsMode::on, TlsMode::off})
    if (text == to_text(mode)) return mode;
  throw BadInput(fmt::format("{}='{}': auto, on or off is needed", what, text));
}

std::string_view to_text(TlsMode mode) {
  return mode == TlsMode::on ? "on" : mode == TlsMode::off ? "off" : "auto";
}

bool leaves_host(int socket) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  if (getpeername(socket, address, &length) != 0) return true;
  if (storage.ss_family == AF_UNIX) return false;
  const SocketAddress peer(address, length);
  return !peer.is_loopback() && peer.host() != bound_address(socket).host();
}

}  // namespace asup::net
