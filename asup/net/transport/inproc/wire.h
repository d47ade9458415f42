// A wire between two members that are threads of one process: the same rings as between processes,
// on the heap, which the hub makes. Wires are used under their meshes' locks; the hub
// from any thread.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "asup/base/clock.h"
#include "asup/net/transport/ring_wire.h"

namespace asup::net {

class InprocHub {
 public:
  InprocHub();
  ~InprocHub();

  // The wire of `rank` to `peer`; waits until both have asked. Null when the deadline passes.
  std::unique_ptr<Wire> connect(std::uint64_t generation, int rank, int peer, Deadline deadline);

 private:
  struct Pair;
  using Who = std::tuple<std::uint64_t, int, int>;  // generation, lower rank, higher rank

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Who, std::shared_ptr<Pair>> pairs_;

  friend class InprocWire;
};

}  // namespace asup::net
