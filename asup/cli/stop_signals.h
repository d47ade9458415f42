// Asks a training loop to stop after the step it is in, when SIGINT or SIGTERM comes.
//
// A signal handler has no object to call, so this is the one place with state of the process; make
// one at a time. A second signal, seconds later, ends the process as if nobody listened.
#pragma once

namespace asup::cli {

class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // The signal that came, or 0. From any thread.
  static int received();
};

}  // namespace asup::cli
