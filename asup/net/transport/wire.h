// Carries bytes, in order and without blocking, between two members; and, where they share a host,
// lets one reach the other's memory. Links (link.h) put channels on top.
//
// A wire is used under its mesh's lock (loop.h). Bytes are written and read in units of kUnit, so
// that frame headers never straddle the end of a ring and elements are never split.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "asup/base/clock.h"

namespace asup::net {

inline constexpr std::size_t kUnit = 32;

constexpr std::size_t round_up_to_unit(std::size_t bytes) {
  return (bytes + kUnit - 1) / kUnit * kUnit;
}

using ConstBytes = std::span<const std::byte>;
using Bytes = std::span<std::byte>;

class Region;  // memory of one member that others on its host can map

struct WireAbilities {
  std::string_view name;
  bool sees_death = true;      // a peer's death is told by the kernel
  bool keyed = true;           // admits only members that prove the job's key
  bool shares_memory = false;  // regions can be reached
  // What the peer has not read is lost when this side closes while bytes from the peer are unread.
  bool drain_before_close = false;
  // Nothing but fd() tells that bytes have come: it is asked while nobody sleeps, too.
  bool told_by_descriptor = false;
};

class Wire {
 public:
  virtual ~Wire() = default;

  virtual WireAbilities abilities() const = 0;

  // Takes as many leading bytes of the pieces together as fit now; returns how many.
  virtual std::size_t write(std::span<const ConstBytes> pieces) = 0;

  // Of the bytes written, those that the peer's host has not got yet, as far as can be told.
  virtual std::size_t undelivered() const { return 0; }
  // How long the peer's host has not acknowledged anything of that, as far as can be told. needs:
  // asked every second or so
  virtual Seconds silence(Clock::time_point /*now*/) { return Seconds(0); }

  // Bytes that have arrived, in place: at least `want` of them, or none. The reader has another
  // place for what comes after the first `useful` ones, so that those need not be fetched.
  virtual ConstBytes peek(std::size_t want, std::size_t useful) = 0;
  virtual void skip(std::size_t bytes) = 0;
  // Moves what has arrived into `into`; returns how much.
  virtual std::size_t read(Bytes into);

  // Nothing has come and nothing has ended: there is no need to look further. May say no in doubt.
  virtual bool quiet() { return false; }

  // A sleeping peer may not know yet of what was written and read. needs, before it: a full fence
  // after the last write or read, one for any number of wires
  virtual void wake_if_asleep() {}
  bool owes_wake() const { return owes_wake_; }

  // Nothing will be written any more; the peer reads up to here and then sees the end.
  virtual void end_writing() {}
  // The peer closed or died; bytes that arrived before can still be read.
  virtual bool closed() const = 0;
  // Closed, because the peer did this, which no member does; empty: nothing of the kind.
  virtual std::string breach() const { return {}; }

  // Before sleeping: asks the peer to wake `fd()` on news, and says whether sleep is right (nothing
  // has come meanwhile). `wants_room`: a write did not fit.
  virtual bool arm(bool wants_room) = 0;
  virtual void disarm() {}
  // -1: nothing wakes a sleeper, who must look again after a short while.
  virtual int fd() const = 0;
  // Something has come to fd(), there is room again, or the end: the wire looks again. Throws
  // OutOfMemory where this process cannot take what has come, and is closed then.
  virtual void on_fd_ready() {}

  // Of wires that share memory; on the others nothing is ever offered.
  // Lets the peer reach the region; it sees it before any byte written from now on.
  virtual void offer(std::uint32_t /*id*/, const std::shared_ptr<const Region>& /*region*/) {}
  virtual void withdraw(std::uint32_t /*id*/) {}
  // The peer's region as mapped here; null when it was not offered, or was withdrawn. Whoever holds
  // it may use it longer than that.
  virtual std::shared_ptr<const Region> reach(std::uint32_t /*id*/) { return nullptr; }
  // Kills the peer's process and waits until it has ended. False: it may still write into regions.
  virtual bool end_peer(Deadline /*deadline*/) { return true; }

 protected:
  bool owes_wake_ = false;
};

}  // namespace asup::net
