// A wire over a TCP connection. Small reads come out of one buffered system call; large payloads
// are received straight into their place. Used under its mesh's turn.
#pragma once

#include <memory>
#include <vector>

#include "asup/net/wire.h"

namespace asup::net {

class TcpWire : public Wire {
 public:
  // Over a connected socket whose ends have proved the key; takes ownership of it.
  explicit TcpWire(int socket);
  ~TcpWire() override;

  WireAbilities abilities() const override { return {"tcp", true, true, false, true}; }
  std::size_t write(std::span<const ConstBytes> pieces) override;
  ConstBytes peek(std::size_t want) override;
  void skip(std::size_t bytes) override;
  std::size_t read(Bytes into) override;
  void end_writing() override;
  bool closed() const override { return closed_; }
  bool arm(bool) override { return begin_ == end_ && !closed_; }
  int fd() const override { return socket_; }

 private:
  std::size_t receive(Bytes into);

  int socket_;
  bool closed_ = false;
  std::vector<std::byte> buffer_;  // arrived bytes are [begin_, end_)
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace asup::net
