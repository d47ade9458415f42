#include "asup/ps/serve.h"

#include "asup/ps/server.h"

namespace asup::ps {
namespace {

bool workers_are_here(Job& job) {
  const net::Loop::Turn turn(job.mesh().loop());
  for (int worker = 0; worker < job.size(); ++worker)
    if (job.mesh().end_of(worker) == net::LinkEnd::open) return true;
  return false;
}

}  // namespace

// A program may train several models, one after the other.
void serve(Job& job) {
  while (workers_are_here(job))
    Server(team_of(job), {.threads = 0, .patience = job.options().call_timeout}).run();
}

}  // namespace asup::ps
