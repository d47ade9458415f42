// What workers and servers say to each other: the heads of their messages (messenger.h). Values
// only. docs/parameter_server.md tells the whole conversation.
//
//   worker -> servers  hello, initial, piece, commit, leave   server -> worker  welcome, refused,
//   worker -> head     arrive, ask_sync_point, save, report                     parameters
//   server -> head     staged, saved                          head -> worker    release, saved,
//   head -> servers    command                                                  report
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "asup/net/transport/message_head.h"
#include "asup/ps/shard_map.h"

namespace asup::ps {

enum class Kind : std::uint32_t {
  hello = 1,
  welcome,
  refused,
  initial,
  piece,
  commit,
  arrive,
  staged,
  command,
  parameters,
  release,
  save,
  saved,
  report,
  leave,
  ask_sync_point
};

// Where memory lies that the receiver may reach; region 0: it may not, the payload brings the
// bytes.
struct Place {
  std::uint64_t offset = 0;
  std::uint32_t region = 0;
  std::uint32_t reserved = 0;
};

// Payload: the setup as text (server_setup.h), and after it the ranges that the worker trains.
struct Hello {
  static constexpr Kind kKind = Kind::hello;
  std::uint64_t setup_bytes = 0;
  Place parameters;  // of the flat space's first element
};

// All that the servers need is there; the parameters have this version.
struct Welcome {
  static constexpr Kind kKind = Kind::welcome;
  std::uint64_t version = 0;
};

// The receiver, or what it sent, cannot be used. Payload: why.
struct Refused {
  static constexpr Kind kKind = Kind::refused;
};

// Parameters to begin with, from the worker that provides them.
struct Initial {
  static constexpr Kind kKind = Kind::initial;
  Range range;
  Place place;
};

// A part of the gradient of a push.
struct Piece {
  static constexpr Kind kKind = Kind::piece;
  std::uint64_t push = 0;
  Range range;
  Place place;
};

// What a worker says of a push, after its last piece.
struct Figures {
  std::uint64_t version = 0;  // of the parameters it was computed from
  std::uint64_t samples = 0;
  std::uint64_t lease = 0;       // its number
  std::uint64_t not_finite = 0;  // elements
  double lr = 0;
  double loss = 0;  // sum over the samples
  double compute_seconds = 0;
  double wait_seconds = 0;  // before it, for parameters
};
struct Commit {
  static constexpr Kind kKind = Kind::commit;
  std::uint64_t push = 0;
  Figures figures;
};

// Wants parameters and work: at the start, and after every sync point. Payload: the workers that it
// ended the sync point with, as std::int32_t.
struct Arrive {
  static constexpr Kind kKind = Kind::arrive;
};

// All are to synchronize as soon as may be: at the end of the step that is being dealt out.
struct AskSyncPoint {
  static constexpr Kind kKind = Kind::ask_sync_point;
};

// A server has all of a push.
struct Staged {
  static constexpr Kind kKind = Kind::staged;
  std::int32_t worker = 0;
  std::uint64_t push = 0;
};

// What all servers do next; see command.h. Payload: its lists.
struct CommandHead {
  static constexpr Kind kKind = Kind::command;
  std::uint64_t version = 0;
  double lr = 0;
  std::uint32_t parts = 0;
  std::uint32_t dropped = 0;
  std::uint32_t released = 0;
  std::uint32_t saves = 0;  // bytes of a path
};

// A range of the parameters: written where the worker said, or in the payload.
struct Parameters {
  static constexpr Kind kKind = Kind::parameters;
  std::uint64_t version = 0;
  Range range;
};

// What a worker does next.
struct Release {
  static constexpr Kind kKind = Kind::release;
  enum class Next : std::uint32_t {
    lease,
    sync_point,  // all work before `step` is done and in the parameters
    end
  };
  Next next = Next::lease;
  std::uint32_t reserved = 0;
  std::uint64_t version = 0;
  std::uint64_t lease = 0;  // its number
  std::uint64_t step = 0;
  std::uint64_t begin = 0, end = 0;  // samples of the step's global batch
};

// Keep what you have in files that begin with this path (the payload).
struct Save {
  static constexpr Kind kKind = Kind::save;
};

// Done; payload: why not, where it failed.
struct Saved {
  static constexpr Kind kKind = Kind::saved;
};

// Asks the head to tell of the pace, and is its answer (payload: JSON).
struct Report {
  static constexpr Kind kKind = Kind::report;
};

// The worker is done with the servers; it may stay a member of the job.
struct Leave {
  static constexpr Kind kKind = Kind::leave;
};

using net::head_of;
using net::read;

std::optional<Kind> kind_of(net::ConstBytes head);

}  // namespace asup::ps
