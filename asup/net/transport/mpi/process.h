// MPI as it is in this process: begun once, by the first job that links over it, and ended when the
// process ends, since MPI cannot begin twice.
//
// MPI is called by whoever has the lock of the job's mesh (loop.h), so by one thread at a time:
// MPI_THREAD_SERIALIZED is enough. What MPI finds wrong, it reports itself, and ends the job.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "asup/base/clock.h"

namespace asup::net {

class MpiGroup;

class MpiProcess {
 public:
  // Begins MPI at the first call. Throws BadInput where MPI cannot be used from several threads.
  static MpiProcess& get();

  int rank() const;  // in MPI_COMM_WORLD
  int size() const;

  // Takes over a request that its wire did not see the end of, with the memory it works on.
  void keep(MPI_Request request, std::vector<std::byte> memory);
  // Some rank never came: MPI cannot end in good order any more. mpirun then ends the job.
  void give_up() { gave_up_ = true; }

  // The job over MPI that lives in this process; there is one at most.
  std::weak_ptr<MpiGroup> job;

 private:
  MpiProcess();
  ~MpiProcess() { end(); }
  void end();

  struct Kept {
    MPI_Request request;
    std::vector<std::byte> memory;
  };
  void let_go_of_what_ended();

  bool began_it_ = false;  // not the program itself
  bool gave_up_ = false;
  std::deque<Kept> kept_;
};

// A communicator of our own: what others send over MPI in this process never meets what we do. It
// is left to MPI_Finalize, for a message that comes late, after a wire has gone, must not be taken
// for one of the next communicator, which would get the freed one's number.
class MpiGroup {
 public:
  // All processes of `of` call it. Null when not all have by the deadline.
  static std::shared_ptr<MpiGroup> duplicate(MPI_Comm of, Deadline deadline);
  MpiGroup(const MpiGroup&) = delete;
  MpiGroup& operator=(const MpiGroup&) = delete;

  MPI_Comm get() const { return communicator_; }

 private:
  explicit MpiGroup(MPI_Comm communicator) : communicator_(communicator) {}
  MPI_Comm communicator_;
};

// Waits without keeping a core busy; false when the deadline passes first.
bool wait_for(MPI_Request& request, Deadline deadline);

}  // namespace asup::net
