// The mesh's lock for a moment. Unlike callers that wait, its owner leaves the links to the loop's
// thread, which would otherwise stay away from them for a while.
#pragma once

#include "asup/net/transport/loop.h"

namespace asup::gossip {

class BriefLock {
 public:
  explicit BriefLock(net::Loop& loop) : lock_(loop) {
    loop.post([] {});
  }

 private:
  const net::MeshLock lock_;
};

}  // namespace asup::gossip
