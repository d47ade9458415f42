// What workers that average in pairs say to each other: the heads of their messages (net/mail.h).
// Values only. docs/pairwise.md tells the whole conversation.
//
//   asker -> partner   ask, chunk, done           either   cancel
//   partner -> asker   accept, busy, chunk, got   all      news
#pragma once

#include <cstdint>

#include "asup/net/mail_head.h"

namespace asup::pairwise {

using net::head_of;
using net::read;

enum class Kind : std::uint32_t { ask = 1, accept, busy, chunk, got, done, cancel, news };

// Which exchange a message is about: an asker counts its own.
struct Exchange {
  std::int32_t asker = -1;
  std::uint32_t reserved = 0;
  std::uint64_t number = 0;

  bool operator==(const Exchange&) const = default;
};

struct Ask {
  static constexpr Kind kKind = Kind::ask;
  Exchange exchange;
  std::uint64_t elements = 0;  // of the model
};
struct Accept {
  static constexpr Kind kKind = Kind::accept;
  Exchange exchange;
};
struct Busy {
  static constexpr Kind kKind = Kind::busy;
  Exchange exchange;
};

// The sender's model from element `begin` on. Payload: the elements.
struct Chunk {
  static constexpr Kind kKind = Kind::chunk;
  Exchange exchange;
  std::uint64_t begin = 0;
};

// The partner has all of the asker's model.
struct Got {
  static constexpr Kind kKind = Kind::got;
  Exchange exchange;
};
// The asker has all too, and both average.
struct Done {
  static constexpr Kind kKind = Kind::done;
  Exchange exchange;
};

// The sender has no part in this exchange any more; nothing changes by it.
struct Cancel {
  static constexpr Kind kKind = Kind::cancel;
  Exchange exchange;
};

// Payload: what the sender knows of progress (counts.h).
struct News {
  static constexpr Kind kKind = Kind::news;
};

}  // namespace asup::pairwise
