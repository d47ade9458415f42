#include "asup/net/membership/reach_coordinator.h"

#include <algorithm>
#include <optional>
#include <thread>

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/net/membership/connect.h"

namespace asup::net {
namespace {

using std::chrono::milliseconds;

void refuse_if_another_answered(const HandshakeResult& result, const SocketAddress& address) {
  using Kind = HandshakeResult::Kind;
  require(result.kind != Kind::wrong_key,
          "the coordinator at {} does not share this process's key: {}. It may be another job's: "
          "use another port (MASTER_PORT or ASUP_COORDINATOR), or give all ranks the same "
          "ASUP_KEY_FILE",
          address.to_string(), result.reason);
  require(result.kind != Kind::garbage,
          "something other than asup listens at {} ({}): use another port (MASTER_PORT or "
          "ASUP_COORDINATOR)",
          address.to_string(), result.reason);
  require(result.kind != Kind::version, "the coordinator at {} is another version of asup: {}",
          address.to_string(), result.reason);
  require(result.kind != Kind::tls,
          "the coordinator at {} and this process differ in --tls: {}. Give all processes of the "
          "job the same (ASUP_TLS), or leave it out where they join",
          address.to_string(), result.reason);
}

// Runs the handshake; nothing where the connection ended or stayed silent, with the reason in
// `why`.
std::optional<ControlConnection> try_handshake(Fd fd, const Key& key, TlsMode tls,
                                               const SocketAddress& address, Deadline deadline,
                                               std::string& why) {
  ControlConnection connection(std::move(fd), key, Side::connector, tls);
  while (connection.open() && !connection.authenticated()) {
    if (!wait_for(connection.fd(), connection.events(), deadline)) {
      why = "it did not answer the handshake";
      return std::nullopt;
    }
    connection.on_ready();
    refuse_if_another_answered(connection.handshake_result(), address);
  }
  if (connection.authenticated()) return connection;
  why = connection.why_closed();
  return std::nullopt;
}

}  // namespace

ControlConnection reach_coordinator(const SocketAddress& address, const Key& key, TlsMode tls,
                                    const std::string& who, Deadline deadline) {
  std::string why = "no time was left to try";
  milliseconds pause(10);
  while (Clock::now() < deadline) {
    const Deadline patience = std::min(deadline, after(kHandshakeTimeout));
    if (Fd fd = try_connect(address, patience, why))
      if (auto connection = try_handshake(std::move(fd), key, tls, address, patience, why))
        return *std::move(connection);
    log().debug("{}: coordinator at {}: {}", who, address.to_string(), why);
    std::this_thread::sleep_until(std::min<Deadline>(deadline, Clock::now() + pause));
    pause = std::min(pause * 2, milliseconds(500));
  }
  throw JobFailed(fmt::format(
      "{} could not reach the coordinator at {}: {}. Is it running, and is the port open?", who,
      address.to_string(), why));
}

ControlFrame next_frame(ControlConnection& connection, Deadline deadline) {
  for (;;) {
    if (auto frame = connection.receive()) return *std::move(frame);
    if (!connection.open())
      throw JobFailed(
          fmt::format("the connection to the coordinator ended: {}", connection.why_closed()));
    if (!wait_for(connection.fd(), connection.events(), deadline))
      throw JobFailed("the coordinator said nothing in time");
    connection.on_ready();
  }
}

}  // namespace asup::net
