#include "asup/net/transport/mpi/process.h"

#include <algorithm>
#include <cstdlib>
#include <thread>
#include <utility>

#include "asup/base/error.h"

namespace asup::net {
namespace {

// How long the end of the process waits for messages that nobody has taken yet.
constexpr Seconds kLastWait{1};

const char* name_of_level(int level) {
  switch (level) {
    case MPI_THREAD_SINGLE:
      return "MPI_THREAD_SINGLE";
    case MPI_THREAD_FUNNELED:
      return "MPI_THREAD_FUNNELED";
    case MPI_THREAD_SERIALIZED:
      return "MPI_THREAD_SERIALIZED";
    default:
      return "MPI_THREAD_MULTIPLE";
  }
}

bool has_begun() {
  int begun = 0;
  MPI_Initialized(&begun);
  return begun != 0;
}

bool has_ended() {
  int ended = 0;
  MPI_Finalized(&ended);
  return ended != 0;
}

}  // namespace

MpiProcess& MpiProcess::get() {
  static MpiProcess process;
  static const int quick = std::at_quick_exit([] { get().end(); });  // where destructors do not run
  static_cast<void>(quick);
  return process;
}

MpiProcess::MpiProcess() {
  require(!has_ended(),
          "this program has called MPI_Finalize already: join the job before it does");
  int level = MPI_THREAD_SINGLE;
  if (has_begun()) {
    // The program's own calls know nothing of our lock.
    MPI_Query_thread(&level);
    require(level >= MPI_THREAD_MULTIPLE,
            "this program began MPI with {}, and links over MPI have a thread of their own: begin "
            "it by MPI_Init_thread with MPI_THREAD_MULTIPLE, or leave that to asup",
            name_of_level(level));
    return;
  }
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level);
  began_it_ = true;
  if (level >= MPI_THREAD_SERIALIZED) return;
  MPI_Finalize();
  throw BadInput(
      fmt::format("this MPI gives {}, and links over MPI need MPI_THREAD_SERIALIZED: use an MPI "
                  "that was built with threads, or other links (ASUP_LINKS=auto)",
                  name_of_level(level)));
}

void MpiProcess::end() {
  if (!began_it_ || gave_up_ || has_ended()) return;
  const Deadline deadline = after(kLastWait);
  for (let_go_of_what_ended(); !kept_.empty() && Clock::now() < deadline; let_go_of_what_ended())
    std::this_thread::yield();
  MPI_Finalize();
}

int MpiProcess::rank() const {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int MpiProcess::size() const {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

void MpiProcess::keep(MPI_Request request, std::vector<std::byte> memory) {
  let_go_of_what_ended();
  kept_.push_back({request, std::move(memory)});
}

void MpiProcess::let_go_of_what_ended() {
  std::erase_if(kept_, [](Kept& kept) {
    int ended = 0;
    MPI_Test(&kept.request, &ended, MPI_STATUS_IGNORE);
    return ended != 0;
  });
}

std::shared_ptr<MpiGroup> MpiGroup::duplicate(MPI_Comm of, Deadline deadline) {
  MPI_Comm communicator = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Comm_idup(of, &communicator, &request);
  if (!wait_for(request, deadline)) return nullptr;
  return std::shared_ptr<MpiGroup>(new MpiGroup(communicator));
}

bool wait_for(MPI_Request& request, Deadline deadline) {
  using std::chrono::microseconds;
  microseconds nap(10);
  for (;;) {
    int done = 0;
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done != 0) return true;
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(nap);
    nap = std::min(2 * nap, microseconds(1000));
  }
}

}  // namespace asup::net
