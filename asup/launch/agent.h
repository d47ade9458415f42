// The launcher's hand on another host: `asup agent`, started over ssh.
//
// It reads the job from its standard input, starts this host's ranks, tells on its standard output
// what they do (agent_protocol.h), and ends them when its input ends, since then the launcher or
// the connection to it is gone. Runs on the calling thread.
#pragma once

namespace asup::launch {

// The exit status.
int run_agent(int in, int out);

}  // namespace asup::launch
