// What workers that go at their own pace say to each other: the heads of their messages
// (net/messenger.h). Values only. docs/pairwise.md tells the whole conversation.
//
//   asker -> partner   ask, chunk, done           either           cancel
//   partner -> asker   accept, busy, chunk, got   all              news
//   to the first       here, want_samples,        from the first   word, deal_samples
//                      samples_done
#pragma once

#include <cstdint>

#include "asup/net/transport/message_head.h"

namespace asup::gossip {

using net::head_of;
using net::read;

enum class Kind : std::uint32_t {
  ask = 1,
  accept,
  busy,
  chunk,
  got,
  done,
  cancel,
  news,
  here,
  word,
  want_samples,
  deal_samples,
  samples_done
};

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

// Payload: what the sender knows of progress (progress_vector.h).
struct News {
  static constexpr Kind kKind = Kind::news;
};

// Where the sender is in rounds of all (quorum.h); numbers of them, none ever falls.
struct Here {
  static constexpr Kind kKind = Kind::here;
  std::uint64_t come = 0;
  std::uint64_t reached = 0;  // a milestone of one: Quorum::Milestone
  std::uint64_t gave_up = 0;
};
// What the first worker says of them. Payload: by worker, the last that takes place without it, and
// the last milestone that all have reached of the last one that takes place with it.
struct QuorumMessage {
  static constexpr Kind kKind = Kind::word;
  std::uint64_t decided = 0;     // it is said who comes to this one, and
  std::uint64_t since = 0;       // since when these, and nobody else, have met undisturbed, and
  std::uint64_t allowed_us = 0;  // how long its merge may take; 0: as long as it takes
  std::uint64_t given_up = 0;
};

// Wants up to `count` samples before the place `limit`, or, ahead of time, those of up to
// `steps_ahead` such steps (dealt_samples.h).
struct WantSamples {
  static constexpr Kind kKind = Kind::want_samples;
  std::uint64_t number = 0;  // of the asker's questions
  std::uint64_t count = 0;
  std::uint64_t limit = 0;
  std::uint64_t steps_ahead = 0;
};
// Gets those; none where begin is end.
struct DealSamples {
  static constexpr Kind kKind = Kind::deal_samples;
  std::uint64_t number = 0;  // of the question
  std::uint64_t begin = 0, end = 0;
};
// Has done so many of what it got, the first ones.
struct SamplesDone {
  static constexpr Kind kKind = Kind::samples_done;
  std::uint64_t count = 0;
};

}  // namespace asup::gossip
