// What workers and servers say to each other about embedding tables: the heads of their messages
// (messenger.h). Values only. docs/embeddings.md tells the whole conversation.
//
//   worker -> servers  hello, pull, push, commit, meet, read, write, leave
//   server -> worker   welcome, refused, answer, applied, met
//
// Tables are numbered in the order in which workers make them.
#pragma once

#include <cstdint>

#include "asup/layout/layout.h"
#include "asup/net/member_group.h"
#include "asup/net/transport/message_head.h"

namespace asup::ps::table {

using layout::Range;

enum class Kind : std::uint32_t {
  hello = 1,
  welcome,
  refused,
  pull,
  push,
  commit,
  applied,
  meet,
  met,
  read,
  write,
  answer,
  leave
};

// A message has no longer payload than this, nor an answer; a worker has no more questions open.
constexpr std::uint64_t kMostBytes = std::uint64_t{4} << 20;
constexpr std::size_t kMostQuestions = 16;

// Payload: the setup as text (setup.h).
struct Hello {
  static constexpr Kind kKind = Kind::hello;
  std::uint64_t table = 0;
};

// All workers want this table alike.
struct Welcome {
  static constexpr Kind kKind = Kind::welcome;
  std::uint64_t table = 0;
};

// Nothing more is taken from the worker. Payload: why.
struct Refused {
  static constexpr Kind kKind = Kind::refused;
  std::uint64_t own = 0;  // 1: for what the worker itself has said
};

// Payload: the numbers of rows, u64, ascending. The answer's: the rows, f32.
struct Pull {
  static constexpr Kind kKind = Kind::pull;
  std::uint64_t question = 0;
  std::uint64_t table = 0;
};

// A part of the gradient of the next commit, whose rows ascend from part to part. Payload: `count`
// numbers of rows, u64, then the gradient of each, f32.
struct Push {
  static constexpr Kind kKind = Kind::push;
  std::uint64_t table = 0;
  std::uint64_t count = 0;
};

// The gradient of a step is complete, of all tables. Payload: a TableStep for each.
struct Commit {
  static constexpr Kind kKind = Kind::commit;
  std::uint64_t samples = 0;  // by which it counts; 0: it does not
};
struct TableStep {
  double lr = 0;
  std::uint64_t trained = 0;  // 1: the step used the table
};

// So many of the worker's commits are in the tables.
struct Applied {
  static constexpr Kind kKind = Kind::applied;
  std::uint64_t commits = 0;
};

// Waits until all workers are here.
struct Meet {
  static constexpr Kind kKind = Kind::meet;
};
struct Met {
  static constexpr Kind kKind = Kind::met;
  std::uint64_t first = 0;  // the lowest of them
};

// Whole records, by the places of their rows on the server, to save and to load. The answer's
// payload: the records, f32.
struct Read {
  static constexpr Kind kKind = Kind::read;
  std::uint64_t question = 0;
  std::uint64_t table = 0;
  Range places;
};
// Payload: the records. The answer has none.
struct Write {
  static constexpr Kind kKind = Kind::write;
  std::uint64_t question = 0;
  std::uint64_t table = 0;
  Range places;
  double steps = 0;  // that the table has had
};

struct Answer {
  static constexpr Kind kKind = Kind::answer;
  std::uint64_t question = 0;
  double steps = 0;  // that the table has had
};

// The worker needs no table any more; it may stay a member of the job.
struct Leave {
  static constexpr Kind kKind = Kind::leave;
};

using net::head_of;
using net::read;

// Members that talk about tables: the number before those of Job::next_service_id().
inline net::MemberGroup group_of(Job& job) {
  return {job.mesh(), job.generation() << 24 | std::uint64_t{1} << 23, job.size(), job.servers()};
}

}  // namespace asup::ps::table
