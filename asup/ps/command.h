// What the head tells all servers to do, to all the same and in the same order, so that every shard
// goes through the same versions. Values only; safe from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "asup/ps/message.h"

namespace asup::ps {

struct Command {
  struct PushRef {
    std::int32_t worker = 0;
    std::uint32_t reserved = 0;
    std::uint64_t number = 0;
    double weight = 0;  // among the parts
    bool operator==(const PushRef&) const = default;
  };

  std::uint64_t version = 0;           // of the parameters when it is done
  double gain = 0;                     // of the learning rates (pace/pacer.h)
  double share = 1;                    // of a step's samples
  std::vector<PushRef> parts;          // averaged by weight into one update; none: no update
  std::vector<PushRef> dropped;        // never to be applied
  std::vector<std::int32_t> released;  // workers that get the parameters
  bool compares = false;               // the parts, for the noise scale

  bool operator==(const Command&) const = default;
};

CommandHead head_of_command(const Command& command);
std::vector<std::byte> payload_of(const Command& command);
// Nothing where the payload is not as long as the head says.
std::optional<Command> read_command(const CommandHead& head, net::ConstBytes payload);

// Throws Error where it names a worker that is none of so many.
void require_workers(const Command& command, int workers);

}  // namespace asup::ps
