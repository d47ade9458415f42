#include "tests/support/ranks.h"

#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "asup/net/coordinator.h"
#include "asup/net/inproc/wire.h"
#include "asup/net/key.h"

namespace asup::testing {

void run_ranks(int ranks, net::LinkKind links, const std::function<void(Job&)>& body, int servers) {
  net::JoinOptions options;
  options.size = ranks;
  options.servers = servers;
  options.links = links;
  options.key = net::random_key();
  options.join_timeout = Seconds(20);
  net::InprocHub hub;
  options.hub = &hub;
  std::unique_ptr<net::Coordinator> coordinator;
  if (links != net::LinkKind::inproc && ranks > 1) {
    coordinator = std::make_unique<net::Coordinator>(
        net::CoordinatorOptions{net::resolve({"127.0.0.1", 0}).front(),
                                "",
                                options.key,
                                ranks,
                                servers,
                                options.join_timeout,
                                Seconds(10),
                                std::nullopt,
                                "",
                                {}});
    options.coordinator = coordinator->address();
  }

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
