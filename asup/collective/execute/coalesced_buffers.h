// Many buffers of a call as one: copied together in memory that the ranks of a host reach, reduced
// there, and copied back. Used under the mesh's lock.
#pragma once

#include <memory>
#include <vector>

#include "asup/collective/communicator.h"
#include "asup/collective/execute/envelope.h"

namespace asup::collective {

class CoalescedBuffers {
 public:
  // `memory` holds all of the parts, one after the other.
  CoalescedBuffers(std::vector<Buffer> parts, std::shared_ptr<SharedMemory> memory);

  void pack();
  void unpack();
  // Ranks that coalesce other sizes make another call.
  void describe(Envelope& envelope) const;

 private:
  const std::vector<Buffer> parts_;
  const std::shared_ptr<SharedMemory> memory_;
};

// All of them in one, at nowhere yet. Throws BadInput where they cannot be one: of several dtypes,
// null, not on the CPU, more elements than memory holds.
Buffer whole_of(const std::vector<Buffer>& parts);

}  // namespace asup::collective
