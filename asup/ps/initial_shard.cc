#include "asup/ps/initial_shard.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "asup/base/error.h"

namespace asup::ps {
namespace {
constexpr double kMostSteps = 9e15;  // that a double counts one by one
}  // namespace

InitialShard::InitialShard(Range shard, const ServerSetup& setup) : shard_(shard), setup_(setup) {
  for (const Range& part : parts_of(setup))
    if (const Range here = intersection(part, shard); !here.empty())
      parts_.push_back({.range = here, .tensors = parts_in(setup.layout, here), .at = here.end});
}

std::size_t InitialShard::place_of(Range range) const {
  const auto found = std::ranges::find_if(parts_, [&](const Part& part) {
    return part.range.begin <= range.begin && range.begin < part.range.end;
  });
  return found == parts_.end() ? 0 : static_cast<std::size_t>(found - parts_.begin());
}

std::string InitialShard::complaint_about(int worker, const Initial& initial,
                                          std::uint64_t bytes) const {
  const Part& part = part_of(initial.range);
  if (part.parameters_came || (part.provider && *part.provider != worker))
    return "it sends parameters to begin with, and they came before";
  if (initial.range != part.range || bytes != part.range.size() * sizeof(float))
    return fmt::format(
        "its first parameters, elements {} to {} in {} bytes, are not those of this shard, {} to "
        "{}",
        initial.range.begin, initial.range.end, bytes, part.range.begin, part.range.end);
  return {};
}

std::string InitialShard::complaint_about_state(int worker, const Part& part) const {
  if (!setup_.with_state) return "it sends an optimizer's state, which its setup does not announce";
  if (!part.parameters_came || *part.provider != worker)
    return "it sends an optimizer's state, and did not provide the parameters";
  return {};
}

std::string InitialShard::complaint_about(int worker, const StateUpdates& updates,
                                          std::uint64_t bytes) const {
  const Part& part = part_of(updates.range);
  if (auto complaint = complaint_about_state(worker, part); !complaint.empty()) return complaint;
  if (part.updates_came) return "it says twice how often tensors were updated";
  if (updates.range != part.range || bytes != part.tensors.size() * sizeof(double))
    return fmt::format(
        "it says in {} bytes how often the tensors of elements {} to {} were updated; this shard "
        "has {} tensors, in elements {} to {}",
        bytes, updates.range.begin, updates.range.end, part.tensors.size(), part.range.begin,
        part.range.end);
  return {};
}

std::string InitialShard::complaint_about(int worker, const State& state,
                                          std::uint64_t bytes) const {
  const Part& part = part_of(state.range);
  if (auto complaint = complaint_about_state(worker, part); !complaint.empty()) return complaint;
  if (!part.updates_came)
    return "it sends an optimizer's state before it says how often it was updated";
  const bool begins = part.at == part.range.end;
  const std::size_t slot = part.slots - (begins ? 0 : 1);
  const std::uint64_t at = begins ? part.range.begin : part.at;
  const Range range = state.range;
  const bool expected = slot < state_slots(setup_) && state.slot == slot && range.begin == at &&
                        !range.empty() && range.end <= part.range.end;
  if (!expected || range.size() > kMostStateElements || bytes != range.size() * sizeof(float))
    return fmt::format(
        "it sends elements {} to {} of slot {} of its optimizer's state in {} bytes; what is "
        "missing here begins at element {} of slot {} of {}, and the shard ends at {}",
        range.begin, range.end, state.slot, bytes, at, slot, state_slots(setup_), part.range.end);
  return {};
}

net::Bytes InitialShard::room_in(Floats& floats, Range range) {
  if (floats.size() == 0) floats = Floats(shard_.size());
  return std::as_writable_bytes(
      std::span(floats.data() + (range.begin - shard_.begin), range.size()));
}

net::Bytes InitialShard::room_for(int worker, const Initial& initial, std::uint64_t bytes) {
  if (!complaint_about(worker, initial, bytes).empty()) return {};
  part_of(initial.range).provider = worker;
  return room_in(parameters_, initial.range);
}

net::Bytes InitialShard::room_for(int worker, const StateUpdates& updates, std::uint64_t bytes) {
  if (!complaint_about(worker, updates, bytes).empty()) return {};
  Part& part = part_of(updates.range);
  part.updates.resize(part.tensors.size());
  return std::as_writable_bytes(std::span(part.updates));
}

net::Bytes InitialShard::room_for(int worker, const State& state, std::uint64_t bytes) {
  if (!complaint_about(worker, state, bytes).empty()) return {};
  Part& part = part_of(state.range);
  if (state.range.begin == part.range.begin) {
    ++part.slots;
    part.at = part.range.begin;
  }
  if (slots_.size() < part.slots) slots_.resize(part.slots);
  return room_in(slots_[state.slot], state.range);
}

std::string InitialShard::add(int worker, const Initial& initial, net::ConstBytes payload) {
  if (auto complaint = complaint_about(worker, initial, payload.size()); !complaint.empty())
    return complaint;
  const net::Bytes room = room_for(worker, initial, payload.size());
  if (room.data() != payload.data()) std::memcpy(room.data(), payload.data(), room.size());
  part_of(initial.range).parameters_came = true;
  return {};
}

std::string InitialShard::add(int worker, const StateUpdates& updates, net::ConstBytes payload) {
  if (auto complaint = complaint_about(worker, updates, payload.size()); !complaint.empty())
    return complaint;
  Part& part = part_of(updates.range);
  for (const double steps : part.updates)
    if (!(steps >= 0 && steps < kMostSteps))
      return fmt::format("it says that a tensor has had {} steps", steps);
  part.updates_came = true;
  return {};
}

std::string InitialShard::add(int worker, const State& state, net::ConstBytes payload) {
  if (auto complaint = complaint_about(worker, state, payload.size()); !complaint.empty())
    return complaint;
  part_of(state.range).at = state.range.end;
  return {};
}

bool InitialShard::complete() const {
  return std::ranges::all_of(parts_, [&](const Part& part) {
    const bool has_state =
        part.updates_came && part.slots == state_slots(setup_) && part.at == part.range.end;
    return part.parameters_came && (!setup_.with_state || has_state);
  });
}

void InitialShard::move_into(Shard& shard) {
  const bool in_step = std::ranges::any_of(parts_, [](const Part& part) {
    return std::ranges::any_of(part.updates,
                               [](double steps) { return steps != std::floor(steps); });
  });
  // Zeros that came take memory; those that are not touched take none.
  if (setup_.with_state && gathers_gradients(setup_) && !in_step)
    slots_.back() = Floats(shard_.size());
  shard.begin_with(std::move(parameters_), std::move(slots_));
  if (!setup_.with_state) return;
  for (const Part& part : parts_)
    for (std::size_t i = 0; i < part.tensors.size(); ++i)
      shard.set_steps(part.tensors[i].range, part.updates[i]);
}

}  // namespace asup::ps
