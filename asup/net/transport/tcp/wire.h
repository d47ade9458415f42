// A wire over a TCP connection, plain or encrypted. Small messages come out of one buffered system
// call; large payloads are received straight into their place, together with the header that
// follows them. Used under its mesh's lock.
#pragma once

#include <memory>
#include <vector>

#include "asup/net/membership/silence.h"
#include "asup/net/tls/stream.h"
#include "asup/net/transport/wire.h"

namespace asup::net {

class TcpWire : public Wire {
 public:
  // Over a connected socket whose ends have proved the key; takes ownership of it. `tls` is a
  // stream over it that is established; null: not encrypted.
  explicit TcpWire(int socket, std::unique_ptr<TlsStream> tls = nullptr);
  ~TcpWire() override;

  WireAbilities abilities() const override {
    return {tls_ ? "tls" : "tcp", true, true, false, true, true};
  }
  std::size_t write(std::span<const ConstBytes> pieces) override;
  std::size_t undelivered() const override;
  Seconds silence(Clock::time_point now) override { return silence_.of(socket_, now); }
  ConstBytes peek(std::size_t want, std::size_t useful) override;
  void skip(std::size_t bytes) override { begin_ += bytes; }
  std::size_t read(Bytes into) override;
  bool quiet() override { return !may_read_ && begin_ == end_ && !closed_; }
  void end_writing() override;
  bool closed() const override { return closed_; }
  std::string breach() const override { return tls_ ? tls_->why() : std::string(); }
  bool arm(bool) override { return !may_read_ && !closed_; }
  void on_fd_ready() override { may_read_ = may_write_ = true; }
  int fd() const override { return socket_; }

 private:
  std::size_t receive(Bytes into, Bytes then);
  std::size_t receive_encrypted(Bytes into, Bytes then);
  std::size_t send(std::span<const ConstBytes> pieces);

  int socket_;
  std::unique_ptr<TlsStream> tls_;
  bool closed_ = false;
  // What the kernel last said: a call that would find nothing to do is left out.
  bool may_read_ = true;
  bool may_write_ = true;
  std::vector<std::byte> buffer_;  // arrived bytes are [begin_, end_)
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  Silence silence_;
};

}  // namespace asup::net
