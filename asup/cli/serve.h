// A server's life, whichever command was started as one. Runs on the main thread.
#pragma once

#include "asup/net/membership/join_options.h"

namespace asup::cli {

// Joins the job as the server that `identity` says, and serves until no worker is left. Returns the
// exit status.
int serve(const net::JoinOptions& identity);

}  // namespace asup::cli
