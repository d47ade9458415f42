#include "asup/ps/serve.h"

#include "asup/ps/table/server.h"

namespace asup::ps {
namespace {

bool workers_are_here(Job& job) {
  const net::MeshLock lock(job.mesh().loop());
  for (int worker = 0; worker < job.size(); ++worker)
    if (job.mesh().end_of(worker) == net::LinkEnd::open) return true;
  return false;
}

}  // namespace

// A program may train several models, one after the other, and has its embedding tables beside
// them. When all workers have left, they may have done so to begin the next generation.
void serve(Job& job, const ServerOptions& options) {
  do {
    const table::Server tables(table::group_of(job));
    while (workers_are_here(job)) Server(net::workers_and_servers(job), options).run();
  } while (job.renew());
}

}  // namespace asup::ps
