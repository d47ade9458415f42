// The head of every message of a collective: which call it belongs to, as its sender made it, and
// where the sender's memory lies. A receiver compares it with its own call, so that ranks which
// call different things find out instead of adding up the wrong numbers.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "asup/base/dtype.h"
#include "asup/collective/plan/plan.h"

namespace asup::collective {

struct Envelope {
  std::uint64_t sequence = 0;  // the call's number on its communicator
  std::uint64_t count = 0;
  std::uint32_t algorithm = 0;  // hash of the name
  std::uint32_t counts = 0;     // hash of the blocks' sizes, or of the parts'
  std::int32_t root = 0;
  Collective collective{};
  Dtype dtype{};
  ReduceOp op{};
  std::uint8_t flags = 0;          // bit 0: in place, bit 1: shared memory; above: the code
  std::uint32_t input_region = 0;  // 0: not in memory that others reach
  std::uint32_t output_region = 0;
  std::uint64_t input_offset = 0;
  std::uint64_t output_offset = 0;
  std::uint32_t stage_region = 0;  // 0: the call needs none
  std::uint32_t parts = 0;         // buffers that were copied together; 0: one, as it is

  static constexpr std::uint8_t kInPlace = 1;
  static constexpr std::uint8_t kShared = 2;
  static constexpr int kCodeShift = 2;

  // The same call; where the memory lies may differ.
  bool same_call(const Envelope& other) const;
  // "all_reduce number 12: 10 x f32, sum"
  std::string describe() const;
};
static_assert(sizeof(Envelope) == 64);

std::uint32_t hash_of(std::string_view text);
// Of a communicator that comes from another: the same on all members, and apart from every one that
// a Job counts.
inline std::uint64_t derived_id(std::string_view name) {
  return std::uint64_t{1} << 47 | hash_of(name);
}
std::uint32_t hash_of(std::span<const std::size_t> counts);

}  // namespace asup::collective
