// A wire between two processes of one host: rings in an anonymous file that both map, and a unix
// socket that wakes a sleeping peer, carries the file descriptors of regions, and, by closing,
// tells of the peer's death. Used under its mesh's turn.
#pragma once

#include <map>
#include <memory>

#include "asup/net/region.h"
#include "asup/net/ring_wire.h"

namespace asup::net {

class ShmWire : public RingWire {
 public:
  // Over a connected unix socket whose ends have proved the key. The side that connected makes the
  // rings. Both take ownership of `socket`. Throws Error when the peer does not play by the rules.
  static std::unique_ptr<ShmWire> connect(int socket);
  static std::unique_ptr<ShmWire> accept(int socket);
  ~ShmWire() override;

  WireAbilities abilities() const override { return {"shm", true, true, true, false}; }
  bool closed() const override { return closed_; }
  int fd() const override { return socket_; }
  void offer(const RegionHandle& region) override;
  void withdraw(std::uint32_t region) override;
  Bytes reach(std::uint32_t region) override;
  void on_fd_ready() override;

 private:
  ShmWire(int socket, Region rings, bool connected);
  void wake_peer() override;

  int socket_;
  Region rings_;
  bool closed_ = false;
  std::map<std::uint32_t, Region> regions_;  // the peer's, as mapped here
};

}  // namespace asup::net
