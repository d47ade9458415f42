// What travels on a wire: frames, each a header of kUnit bytes, then the head of a message (only in
// its first frame), then payload, each padded to whole units. docs/wire_format.md has it in words.
#pragma once

#include <cstdint>

#include "asup/net/transport/wire.h"

namespace asup::net {

// Channels of one link. Zero is the mesh's own.
using Channel = std::uint64_t;
inline constexpr Channel kControlChannel = 0;

inline constexpr std::uint8_t kFrameVersion = 1;

struct FrameHeader {
  enum class Kind : std::uint8_t {
    first = 1,   // begins a message: head and payload follow
    more = 2,    // goes on with it: payload follows
    credit = 3,  // the receiver has room for `total` more bytes of the channel
    goodbye = 4  // the sender leaves; nothing follows
  };
  Kind kind;
  std::uint8_t version = kFrameVersion;
  std::uint16_t head = 0;     // bytes of the message's head
  std::uint32_t payload = 0;  // bytes of payload in this frame
  Channel channel = 0;
  std::uint64_t total = 0;  // bytes of payload in the whole message
  std::uint64_t reserved = 0;
};
static_assert(sizeof(FrameHeader) == kUnit);

inline constexpr std::size_t kMaxHead = 128;
inline constexpr std::size_t kMaxFramePayload = 256 * 1024;

// Bytes of one channel, as framed, that may be under way or wait for their receiver.
inline constexpr std::uint64_t kWindow = 1024 * 1024;

// What a peer may send that nobody has asked for yet, before it counts as one that does not keep to
// the protocol: so many channels, and bytes of messages in memory, heads and bookkeeping included.
// A rank that is late finds far less.
inline constexpr std::size_t kMostUnasked = 16 * 1024;
inline constexpr std::size_t kMostAside = 512 * 1024 * 1024;

}  // namespace asup::net
