// How the members of a job come to their parties in the parameter server. One model a job.
#pragma once

#include "asup/net/job.h"
#include "asup/ps/server.h"
#include "asup/ps/team.h"

namespace asup::ps {

// All workers and servers of the job.
Team team_of(Job& job);

// A server's life: returns when all workers have left. Throws JobFailed as Server::run() does.
// needs: job.is_server()
void serve(Job& job, const ServerOptions& options = {});

}  // namespace asup::ps
