// The communicator that runs verified plans over a mesh's links (mesh/).
#pragma once

#include <memory>
#include <optional>

#include "asup/collective/communicator.h"
#include "asup/collective/cost/rates.h"
#include "asup/collective/execute/trace.h"
#include "asup/net/job.h"

namespace asup {

struct CommunicatorOptions {
  Seconds timeout{0};       // of calls that give none; zero: the job's
  std::string algorithm{};  // of all-reduces that name none; empty: chosen
  // To choose algorithms by price, the same on all ranks (tuning/start.h finds them); none: by
  // rule (choose.h).
  std::optional<collective::Rates> rates{};
  collective::TraceSink trace{};  // told of every plan and step that is executed
  // Which host each member of the job is on, by its rank there, for algorithms that work inside
  // hosts first; or which rack. Empty: as the members say.
  std::vector<int> hosts{};
  // For a thread beside the one that trains: a caller that waits leaves it to others to move the
  // mesh, and looks from time to time. The one that trains need not give way to it.
  bool beside = false;
};

// A communicator of all members. Collective: ranks make their communicators in the same order. The
// job must outlive it.
std::unique_ptr<Communicator> make_communicator(Job& job, CommunicatorOptions options = {});

// A communicator of these workers, ascending by their ranks in the job, which they make by
// themselves: the others need not know of it. `name`: the same on all of them, and nobody else's.
std::unique_ptr<Communicator> make_communicator(Job& job, const std::vector<int>& workers,
                                                std::string_view name,
                                                CommunicatorOptions options = {});

}  // namespace asup
