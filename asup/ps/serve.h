// What the server of a job does.
#pragma once

#include "asup/net/job.h"

namespace asup::ps {

// Serves the workers of the job until they have all left. Throws JobFailed where it cannot go on.
void serve(Job& job);

}  // namespace asup::ps
