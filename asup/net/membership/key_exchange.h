// Where the ranks of a job on one host get its key, when their launcher (torchrun, mpirun, srun)
// brought none.
//
// Rank 0 makes a random key and hands it out on an abstract unix socket whose name follows from the
// launcher's job id. The kernel tells both ends which user the other is (SO_PEERCRED), so only
// processes of the same user get the key, and only from one of the same user is it taken. Nothing
// is written to disk, so nothing is left behind or goes stale. Another user can at worst take the
// name first, which is reported. Functions only; safe from any thread.
#pragma once

#include <optional>
#include <string>

#include "asup/base/clock.h"
#include "asup/base/fd.h"
#include "asup/net/membership/key.h"

namespace asup::net {

struct KeyOffer {
  Key key{};
  std::string coordinator;  // host:port
};

// The socket's name, without the zero byte that makes it abstract.
std::string key_socket_name(const std::string& job);

// Rank 0's side: a listening, non-blocking socket. Throws BadInput where the name is taken.
Fd open_key_socket(const std::string& name);

// Serves one caller that waits at the socket; a caller of another user gets nothing.
void serve_key(int listener, const KeyOffer& word);

// What the socket says now; nothing where nobody is there.
std::optional<KeyOffer> try_key_socket(const std::string& name);

// The other ranks' side: asks until rank 0 is there. Throws JobFailed at the deadline, or where the
// socket belongs to another user.
KeyOffer ask_for_key(const std::string& name, Deadline deadline);

}  // namespace asup::net
