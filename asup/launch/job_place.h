// Where a running job is found by those who want to join it. Functions only.
#pragma once

#include <optional>
#include <string>

#include "asup/net/membership/key.h"

namespace asup::launch {

struct JobPlace {
  std::string coordinator;  // host:port
  net::Key key{};
};

// Where the launcher of the job with this name hands out its place (net/membership/key_exchange.h):
// to processes of the same user on this host.
std::string key_socket_of(const std::string& job);

// The key in the file that ASUP_KEY_FILE names; nothing where it is not set, or empty. Throws
// BadInput where there is no key in it.
std::optional<net::Key> key_of_user();

// A name that means the same however the folder is written.
std::string name_of_folder(const std::string& folder);

// `job` is a name, a folder that a job is named after, or host:port of a coordinator that has the
// key in the file ASUP_KEY_FILE. Throws BadInput where there is no such job.
JobPlace find_job(const std::string& job);

}  // namespace asup::launch
