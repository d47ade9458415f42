// The container that a checkpoint is stored in.
//
//   8 bytes    "ASUPCKPT"
//   4 bytes    version of this format, little-endian
//   8 bytes    length of the header, little-endian
//   64 bytes   SHA-256 of the header, in hexadecimal
//   header     JSON: what the checkpoint is of, and {name, bytes, sha256} of each section
//   sections   one after the other
//
// Functions on values; safe from any thread, for different paths.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace asup::train {

struct CheckpointFile {
  struct Section {
    std::string name;
    std::string bytes;
  };

  nlohmann::ordered_json header;  // "sections" in it belongs to these functions
  std::vector<Section> sections;

  bool has_section(const std::string& name) const;
  // Throws BadInput where there is no section of this name.
  const std::string& section(const std::string& name) const;
};

// Atomically: throws Error with path and reason, and leaves what was there.
void write_checkpoint_file(const std::string& path, CheckpointFile file);

// Throws BadInput with path and reason: cannot be read, is no checkpoint, is of another version, is
// cut short, is corrupt.
CheckpointFile read_checkpoint_file(const std::string& path);

}  // namespace asup::train
