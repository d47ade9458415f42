#include "asup/cli/stop_signals.h"

#include <csignal>
#include <ctime>

namespace asup::cli {
namespace {

volatile std::sig_atomic_t received_signal = 0;
volatile std::time_t received_at = 0;

// Ctrl-C reaches every process of a terminal, and a launcher passes it on: what comes within two
// seconds is the same request.
extern "C" void note_signal(int signal) {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  if (received_signal != 0 && now.tv_sec - received_at > 2) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
  if (received_signal == 0) received_at = now.tv_sec;
  received_signal = signal;
}

void listen(int signal) {
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
}

}  // namespace

StopSignals::StopSignals() {
  received_signal = 0;
  listen(SIGINT);
  listen(SIGTERM);
}

StopSignals::~StopSignals() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

int StopSignals::received() { return received_signal; }

}  // namespace asup::cli
