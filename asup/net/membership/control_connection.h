// One connection between a member and the coordinator: the handshake first, then frames, encrypted
// where both agree on it; never blocking. A poll loop drives it from one thread.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "asup/base/fd.h"
#include "asup/net/membership/control.h"
#include "asup/net/membership/handshake.h"
#include "asup/net/membership/silence.h"
#include "asup/net/tls/stream.h"

namespace asup::net {

class ControlConnection {
 public:
  // Takes a connected stream socket.
  ControlConnection(Fd socket, const Key& key, Side side, TlsMode tls);

  int fd() const { return socket_.get(); }
  short events() const;  // what to poll for
  // Reads and writes what can be now.
  void on_ready();

  // Queued until the handshake is over and the socket has room.
  void send(ControlFrame::Kind kind, const std::string& body = "");
  bool all_sent() const { return out_.empty() && queued_.empty(); }

  // The next frame that came, also after the connection ended.
  std::optional<ControlFrame> receive();

  bool authenticated() const { return authenticated_; }
  const HandshakeResult& handshake_result() const { return handshake_.result(); }
  bool open() const { return why_closed_.empty(); }
  const std::string& why_closed() const { return why_closed_; }
  // The peer's kernel has ended it: the process there has ended, or wanted it so.
  bool ended_by_peer() const { return ended_by_peer_; }
  // How long the peer's host has not acknowledged what was sent.
  Seconds silence(Clock::time_point now) { return silence_.of(socket_.get(), now); }
  // Closes it, since the peer did what no member does.
  void breach(std::string why);
  bool breached() const { return breached_; }
  // Closes it, since the peer is out of reach.
  void give_up(std::string why) { close(std::move(why)); }

 private:
  void read_some();
  bool read_encrypted(std::span<std::byte> buffer);
  void take_handshake(std::span<const std::byte> bytes);
  void be_authenticated();
  void write_some();
  void close(std::string why);

  Fd socket_;
  const Side side_;
  Handshake handshake_;
  std::unique_ptr<TlsStream> tls_;  // behind the handshake; null: not encrypted
  bool authenticated_ = false;
  FrameReader reader_;
  std::string out_;     // to be sent now
  std::string queued_;  // to be sent after the handshake
  std::string why_closed_;
  Silence silence_;
  bool ended_by_peer_ = false;
  bool breached_ = false;
};

}  // namespace asup::net
