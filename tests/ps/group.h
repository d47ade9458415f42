// A job's first members as workers, the others as servers, on threads of the test or as processes.
#pragma once

#include <fmt/format.h>

#include <functional>

#include "asup/ps/client.h"
#include "asup/ps/server.h"
#include "tests/support/processes.h"
#include "tests/support/ranks.h"

namespace asup::ps::testing {

struct Cast {
  int workers = 2;
  int servers = 1;
  net::LinkKind links = net::LinkKind::inproc;
};

// A setup for one tensor a number, of so many elements each, updated by plain SGD.
inline ServerSetup setup_of(const std::vector<std::uint64_t>& tensors, pace::Options pace = {}) {
  ServerSetup setup;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    append(setup.layout, i, {fmt::format("tensor{}", i), tensors[i]});
  setup.pace = pace;
  return setup;
}

// So many steps of eight samples, all in one epoch.
inline pace::Workload work_of(std::uint64_t steps, std::vector<std::uint64_t> sync_points = {}) {
  pace::Workload work;
  work.steps = steps;
  work.batch = 8;
  work.steps_per_epoch = steps;
  work.sync_points = std::move(sync_points);
  return work;
}

// What a member of the cast does: a worker `work(rank, group)`, a server serves until they are
// gone.
inline std::function<void(Job&)> play(
    const std::function<void(int rank, net::MemberGroup group)>& work) {
  return [work](Job& job) {
    const net::MemberGroup group = net::workers_and_servers(job);
    if (!job.is_server()) return work(job.rank(), group);
    Server(group, {.threads = 2, .patience = Seconds(120)}).run();
  };
}

inline void run_threads(const Cast& cast,
                        const std::function<void(int rank, net::MemberGroup group)>& work) {
  asup::testing::run_ranks(cast.workers + cast.servers, cast.links, play(work), cast.servers);
}

}  // namespace asup::ps::testing
