// Brings the members of a job together and tells each what becomes of the others.
//
// It lives in the launcher under `asup run` and in rank 0 under other launchers. Members connect,
// prove the key, and say who they are; when all are there each gets the roster. From then on a
// connection that ends without goodbye is a lost member, which the others hear of at once, and one
// without heartbeats is late, which is noted but changes nothing: a stopped process may go on.
//
// Others may come later: they wait, the members hear of it, and when all of those that are left
// have said that they are ready, at a moment of their choice, a next generation begins: a new
// roster without the lost and with the newcomers.
//
// It has a thread of its own, on which the callbacks run; they must be quick and must not throw.
// The methods may be called from any other thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "asup/base/clock.h"
#include "asup/net/membership/address.h"
#include "asup/net/membership/control.h"
#include "asup/net/membership/handshake.h"
#include "asup/net/membership/key.h"
#include "asup/net/membership/roster.h"

namespace asup::net {

struct CoordinatorCallbacks {
  std::function<void(const Member&)> on_admitted;       // one of the first generation is there
  std::function<void(const Roster&)> on_complete;       // all members are there, of a generation
  std::function<void(const std::string&)> on_failed;    // they will never be; says who and why
  std::function<void(const Loss&)> on_lost;             // ended without goodbye, or is left out
  std::function<void(const Member&)> on_left;           // said goodbye
  std::function<void(const Member&, Seconds)> on_late;  // silent for so long; once a silence
  std::function<void(const Member&)> on_heard;          // after a silence
};

struct CoordinatorOptions {
  SocketAddress listen;  // port 0: any that is free
  std::string remedy{};  // ends the message when the port is in use: what to change
  Key key{};
  TlsMode tls = TlsMode::automatic;
  int size = 1;                               // members, servers included
  int servers = 0;                            // how many of them, the last ones, are servers
  Seconds join_timeout{60};                   // from the first member that comes to the last
  Seconds hello_timeout = kHandshakeTimeout;  // from a connection to its hello
  Seconds late_after{10};
  std::optional<int> rank{};  // of the member that keeps it; none: the launcher
  std::string key_socket{};   // socket that hands out the key; empty: none (key_exchange.h)
  bool stays_open = false;    // that socket, for newcomers; else until all members are there
  CoordinatorCallbacks callbacks{};
};

class Coordinator {
 public:
  // Listens when it returns. Throws BadInput where it cannot.
  explicit Coordinator(CoordinatorOptions options);
  Coordinator(Coordinator&&) = delete;
  ~Coordinator();  // stops

  std::string address() const;  // host:port

  // Tells the coordinator that a process has ended, as only its launcher knows. Where others wait
  // for it, they hear `why` now instead of at the end of the join timeout.
  void process_ended(int rank, std::string why);

  // Tells the members that it closes, and ends the thread. Not from a callback.
  void stop();

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace asup::net
