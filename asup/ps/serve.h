// What the server of a job does.
#pragma once

#include "asup/net/job.h"
#include "asup/net/member_group.h"
#include "asup/ps/server.h"

namespace asup::ps {

// Serves the workers of the job, one model after the other, until they have all left. Throws
// JobFailed as Server::run() does. needs: job.is_server()
void serve(Job& job, const ServerOptions& options = {});

}  // namespace asup::ps
