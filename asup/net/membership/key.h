// The job's key: the secret that every member proves before anything it says is read.
//
// `asup run` makes a random one and hands it to its ranks on an inherited file descriptor, never on
// a command line or in the environment, where other users could read it. Under other launchers it
// comes from the file ASUP_KEY_FILE. Values only; safe from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "asup/base/fd.h"

namespace asup::net {

using Key = std::array<std::byte, 32>;

Key random_key();

// The key made from a secret that a person keeps in a file: at least 16 bytes, readable by its
// owner alone. Throws BadInput that says which of these does not hold and how to mend it.
Key read_key_file(const std::string& path);

// A memory file with the key in it, sealed against change. Close-on-exec: the launcher clears that
// in the child alone.
Fd make_key_fd(const Key& key);

// Reads the key that make_key_fd wrote, and closes the descriptor, so that programs this process
// starts do not inherit it. Throws BadInput where `fd` is something else by now.
Key read_key_fd(int fd);

// For the job description that travels to another host inside ssh.
std::string to_hex(const Key& key);
Key key_from_hex(std::string_view hex);  // throws BadInput

}  // namespace asup::net
