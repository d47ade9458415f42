// What workers and servers say to each other: the heads of their messages (messenger.h). Values
// only. docs/parameter_server.md tells the whole conversation.
//
//   worker -> servers  hello, initial, piece, commit, leave,  server -> worker  welcome, refused,
//                      state_updates, state, ask_state_updates,                 parameters,
//                      ask_state, known                                         difference,
//                                                                               state_updates,
//                                                                               state
//   worker -> head     arrive, ask_sync_point, report         head -> worker    release, report
//   server -> head     staged, squares
//   head -> servers    command
//   server -> servers  norm
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "asup/layout/layout.h"
#include "asup/net/transport/message_head.h"

namespace asup::ps {

using layout::Range;

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
  report,
  leave,
  ask_sync_point,
  state_updates,
  state,
  ask_state_updates,
  ask_state,
  squares,
  norm,
  difference,
  known
};

// Where memory lies that the receiver may reach; region 0: it may not, the payload brings the
// bytes.
struct RemoteAddress {
  std::uint64_t offset = 0;
  std::uint32_t region = 0;
  std::uint32_t reserved = 0;
};

// Payload: the setup as text (server_setup.h), and after it the ranges that the worker trains.
struct Hello {
  static constexpr Kind kKind = Kind::hello;
  std::uint64_t setup_bytes = 0;
  RemoteAddress parameters;  // of the first element that the worker keeps
  std::uint64_t first = 0;   // which is this one of the flat space
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

// Parameters to begin with, from the worker that provides them: what of its part of the model the
// server keeps.
struct Initial {
  static constexpr Kind kKind = Kind::initial;
  Range range;
  RemoteAddress address;
};

// A part of the gradient of a push. Of elements that travel in a code (coded_parts.h) the payload
// brings the code.
struct Piece {
  static constexpr Kind kKind = Kind::piece;
  std::uint64_t push = 0;
  Range range;
  RemoteAddress address;
};

// What a worker says of a push, after its last piece.
struct Figures {
  std::uint64_t version = 0;  // of the parameters it was computed from
  std::uint64_t samples = 0;
  std::uint64_t lease = 0;       // its number
  std::uint64_t not_finite = 0;  // elements
  double loss = 0;               // sum over the samples
  double compute_seconds = 0;
  double wait_seconds = 0;      // before it, for parameters
  double norm = 0;              // of the gradient; known where `clip` is above 0
  double clip = 0;              // what an update with this gradient is scaled down to; 0: not
  std::uint64_t described = 0;  // 1: its worker said of how many samples it is
};
// Payload: the learning rate of each group of the setup, f64.
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
  double gain = 0;
  double share = 1;
  std::uint32_t parts = 0;
  std::uint32_t dropped = 0;
  std::uint32_t released = 0;
  std::uint32_t compares = 0;  // 1: servers answer with Squares
};

// What a server found of its shard while it carried out a command that compares pushes
// (noise_watch.h).
struct Squares {
  static constexpr Kind kKind = Kind::squares;
  std::uint64_t version = 0;
  double pushes = 0, mean = 0;
};

// Of the update that makes this version, the sum of squares of the elements that this server keeps:
// where several gradients are averaged that are to be clipped, all servers must know the whole.
struct Norm {
  static constexpr Kind kKind = Kind::norm;
  std::uint64_t version = 0;
  double squares = 0;
};

// A range of the parameters: written where the worker said, or in the payload.
struct Parameters {
  static constexpr Kind kKind = Kind::parameters;
  std::uint64_t version = 0;
  Range range;
};

// Of a range that travels in a code: what the parameters are more than those that the worker has.
// Payload: the code; none where it has this version already.
struct Difference {
  static constexpr Kind kKind = Kind::difference;
  std::uint64_t version = 0;
  Range range;
};

// What a worker has where parameters travel in a code, from a checkpoint: the next difference is
// from it. All of the shard, in order and without a gap, between two pushes. Payload: f32, at most
// kMostStateElements.
struct Known {
  static constexpr Kind kKind = Kind::known;
  std::uint64_t version = 0;  // that it stands for
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
  std::uint32_t knows_noise = 0;  // 1: noise_scale is a number
  std::uint64_t version = 0;
  std::uint64_t lease = 0;  // its number
  std::uint64_t step = 0;
  std::uint64_t begin = 0, end = 0;  // samples of the step's global batch
  double noise_scale = 0;            // in samples (base/noise_scale.h)
  // To a sync point: how all go on from there (pace/elsewhere.h).
  enum class Leave : std::uint32_t { no, to_all_reduce, to_local };
  Leave leave = Leave::no;
  std::uint32_t every = 0;  // to local steps: between two exchanges
};

// Asks the head to tell of the pace, and is its answer (payload: JSON).
struct Report {
  static constexpr Kind kKind = Kind::report;
};

// The worker is done with the servers; it may stay a member of the job.
struct Leave {
  static constexpr Kind kKind = Kind::leave;
};

// The state of a rule (momentum, second moments) travels in messages of at most so many elements.
constexpr std::uint64_t kMostStateElements = 512 * 1024;

// The steps that the tensors of a shard have had. Payload: f64 for each that has elements there, in
// the order of the flat space; the fraction is the share of the step under way that it has had. To
// a server: after the first parameters, from the worker that provided them, where the setup says
// so. From one: the answer to AskStateUpdates.
struct StateUpdates {
  static constexpr Kind kKind = Kind::state_updates;
  std::uint64_t version = 0;  // of the parameters that it belongs to; to a server: 0
  Range range;  // the shard; to a server, what of it lies in the worker's part of the model
};

// Elements of a slot of the rule's state (kernels/rule.h); payload: f32. To a server: after
// StateUpdates, slot after slot, each in order. From one: the answer to AskState.
struct State {
  static constexpr Kind kKind = Kind::state;
  std::uint64_t version = 0;  // as above
  std::uint32_t slot = 0;
  std::uint32_t reserved = 0;
  Range range;
};

// A worker wants to know, while no update is under way: at a sync point. One question at a time.
struct AskStateUpdates {
  static constexpr Kind kKind = Kind::ask_state_updates;
};
struct AskState {
  static constexpr Kind kKind = Kind::ask_state;
  static constexpr std::uint32_t kParameters = 0xffffffff;  // in the place of a slot
  std::uint32_t slot = 0;
  std::uint32_t reserved = 0;
  Range range;
};

using net::head_of;
using net::read;

std::optional<Kind> kind_of(net::ConstBytes head);

}  // namespace asup::ps
