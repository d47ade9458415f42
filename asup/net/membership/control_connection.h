// One connection between a member and the coordinator: the handshake first, then frames, never
// blocking. A poll loop drives it from one thread.
#pragma once

#include <optional>
#include <string>

#include "asup/base/fd.h"
#include "asup/net/membership/control.h"
#include "asup/net/membership/handshake.h"

namespace asup::net {

class ControlConnection {
 public:
  // Takes a connected stream socket.
  ControlConnection(Fd socket, const Key& key, Side side);

  int fd() const { return socket_.get(); }
  short events() const;  // what to poll for
  // Reads and writes what can be now.
  void on_ready();

  // Queued until the handshake is over and the socket has room.
  void send(ControlFrame::Kind kind, const std::string& body = "");
  bool all_sent() const { return out_.empty() && queued_.empty(); }

  // The next frame that came, also after the connection ended.
  std::optional<ControlFrame> receive();

  bool authenticated() const { return handshake_.finished() && handshake_.result().ok(); }
  const HandshakeResult& handshake_result() const { return handshake_.result(); }
  bool open() const { return why_closed_.empty(); }
  const std::string& why_closed() const { return why_closed_; }

 private:
  void read_some();
  void take(std::span<const std::byte> bytes);
  void write_some();
  void close(std::string why);

  Fd socket_;
  Handshake handshake_;
  FrameReader reader_;
  std::string out_;     // to be sent now
  std::string queued_;  // to be sent after the handshake
  std::string why_closed_;
};

}  // namespace asup::net
