// A wire between two processes of one host: rings in an anonymous file that both map, and a unix
// socket that wakes a sleeping peer, carries the file descriptors of regions, and, by closing,
// tells of the peer's death. Used under its mesh's lock.
#pragma once

#include <deque>
#include <map>
#include <memory>

#include "asup/base/fd.h"
#include "asup/net/transport/region.h"
#include "asup/net/transport/ring_wire.h"

namespace asup::net {

// What travels on the unix socket; all of one size, so that a record is read by one call.
struct ShmRecord {
  enum class Kind : std::uint32_t { wake, rings, region, withdrawn } kind = Kind::wake;
  std::uint32_t region = 0;
  std::uint64_t bytes = 0;
};

class ShmWire : public RingWire {
 public:
  // Over a connected unix socket whose ends have proved the key. The side that connected makes the
  // rings. Both take ownership of `socket`. Throws Error when the peer does not play by the rules.
  static std::unique_ptr<ShmWire> connect(int socket);
  static std::unique_ptr<ShmWire> accept(int socket);
  ~ShmWire() override;

  WireAbilities abilities() const override { return {"shm", true, true, true, false}; }
  bool closed() const override { return closed_ || broken(); }
  std::string breach() const override {
    return broken() ? "it wrote what does not fit the ring" : breach_;
  }
  std::size_t write(std::span<const ConstBytes> pieces) override;
  bool arm(bool wants_room) override;
  int fd() const override { return socket_; }
  void offer(std::uint32_t id, const std::shared_ptr<const Region>& region) override;
  void withdraw(std::uint32_t id) override;
  std::shared_ptr<const Region> reach(std::uint32_t id) override;
  bool end_peer(Deadline deadline) override;
  void on_fd_ready() override;
  void end_writing() override;

 private:
  ShmWire(int socket, Region rings, bool connected);
  void wake_peer() override;
  void tell(const ShmRecord& record, int fd);
  bool tell_the_rest();                              // false: the socket is full
  std::string take(const ShmRecord& record, Fd fd);  // what is wrong with it; empty: nothing

  int socket_;
  const Fd process_;  // a pidfd of the peer's; none where it is this one, or cannot be seen
  Region rings_;
  bool closed_ = false;
  std::string breach_;
  std::map<std::uint32_t, std::shared_ptr<const Region>> regions_;  // the peer's, as mapped here
  struct Untold {
    ShmRecord record;
    Fd fd;  // our own
  };
  std::deque<Untold> untold_;
};

}  // namespace asup::net
