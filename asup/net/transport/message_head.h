// Heads of messages (messenger.h) as values: a kind, by which the receiver knows it, and what
// belongs to it. Values only.
//
// A body is trivially copyable and names its kind:
//   struct Leave { static constexpr Kind kKind = Kind::leave; };
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>
#include <vector>

#include "asup/net/transport/wire.h"

namespace asup::net {

template <typename Body>
struct MessageHead {
  using Kind = std::remove_const_t<decltype(Body::kKind)>;
  static_assert(sizeof(Kind) == sizeof(std::uint32_t));

  Kind kind = Body::kKind;
  std::uint32_t reserved = 0;
  Body body;
};

template <typename Body>
std::vector<std::byte> head_of(const Body& body) {
  static_assert(std::is_trivially_copyable_v<Body>);
  const MessageHead<Body> head{.body = body};
  std::vector<std::byte> bytes(sizeof head);
  std::memcpy(bytes.data(), &head, sizeof head);
  return bytes;
}

// Nothing where the head is not one of this kind.
template <typename Body>
std::optional<Body> read(ConstBytes bytes) {
  MessageHead<Body> head;
  if (bytes.size() != sizeof head) return std::nullopt;
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.kind != Body::kKind) return std::nullopt;
  return head.body;
}

}  // namespace asup::net
