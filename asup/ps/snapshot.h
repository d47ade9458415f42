// A shard on disk. It is written beside the server's work by a forked child, which sees the shard
// as it was at the fork however long it takes, and appears under its name only when it is whole.
//
// PATH.shard-0-of-2: a line of JSON (range, rule, version, segments), then the parameters and each
// slot of state as they lie in memory, then a checksum. docs/parameter_server.md has the details.
// Used under the mesh's lock.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "asup/ps/shard.h"

namespace asup::ps {

std::string shard_file(const std::string& path, int server, int servers);

class Snapshot {
 public:
  // Throws Error where the system has no process left.
  Snapshot(const Shard& shard, std::uint64_t version, std::string file);
  ~Snapshot();
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;

  // Nothing while it is being written; then a complaint, which is empty where all is well.
  std::optional<std::string> look();

 private:
  const std::string file_;
  pid_t child_ = -1;
};

// Fills the shard from the files of all servers that saved with this path, however many they were;
// returns the version. Throws BadInput where they are not there, not whole or of another model.
std::uint64_t load_shard(Shard& shard, const std::string& path, std::uint64_t elements);

}  // namespace asup::ps
