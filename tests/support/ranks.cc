#include "tests/support/ranks.h"

#include <exception>
#include <thread>
#include <vector>

#include "asup/net/transport/inproc/wire.h"
#include "tests/support/join_options.h"

namespace asup::testing {

void run_ranks(int ranks, net::LinkKind links, const std::function<void(Job&)>& body, int servers) {
  net::JoinOptions options = join_options(ranks, links, servers);
  net::InprocHub hub;
  options.hub = &hub;
  const auto coordinator = make_coordinator(options);
  if (coordinator) options.coordinator = coordinator->address();

  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        net::JoinOptions mine = options;
        mine.rank = rank;
        Job job = Job::join(mine);
        body(job);
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  for (auto& thread : threads) thread.join();
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
}

std::string name_of(net::LinkKind links) {
  switch (links) {
    case net::LinkKind::inproc:
      return "inproc";
    case net::LinkKind::shm:
      return "shm";
    case net::LinkKind::tcp:
      return "tcp";
    case net::LinkKind::mpi:
      return "mpi";
    case net::LinkKind::automatic:
      return "automatic";
  }
  return "?";
}

}  // namespace asup::testing
