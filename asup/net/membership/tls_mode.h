// Whether what the processes of a job say to each other over TCP is encrypted (--tls). The job's
// coordinator has the word, and passes it on with the roster. Functions and values only.
#pragma once

#include <cstdint>
#include <string_view>

namespace asup::net {

enum class TlsMode : std::uint8_t {
  automatic,  // what leaves a host; of who joins a job: as the job does
  on,
  off
};

// "auto", "on" or "off". Throws BadInput that begins with `what`, the variable or flag.
TlsMode tls_mode_of(std::string_view text, std::string_view what);
std::string_view to_text(TlsMode mode);

// A connected socket's peer is not known to be on this host.
bool leaves_host(int socket);

// What one end of a connection thinks of it before it has heard the other.
struct TlsPolicy {
  TlsMode mode = TlsMode::off;
  bool leaves_host = false;

  // Its wish; the acceptor has the last word.
  bool wants() const { return mode == TlsMode::on || (mode == TlsMode::automatic && leaves_host); }
  bool allows(bool encrypted) const {
    return mode == TlsMode::automatic || encrypted == (mode == TlsMode::on);
  }
};

}  // namespace asup::net
