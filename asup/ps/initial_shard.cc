#include "asup/ps/initial_shard.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "asup/base/error.h"

namespace asup::ps {
namespace {
constexpr double kMostSteps = 9e15;  // that a double counts one by one
}  // namespace

InitialShard::InitialShard(Range shard, const ServerSetup& setup)
    : shard_(shard), setup_(setup), tensors_(parts_in(setup.layout, shard)), at_(shard.end) {}

std::string InitialShard::complaint_about(int worker, const Initial& initial,
                                          std::uint64_t bytes) const {
  if (parameters_came_ || (provider_ && *provider_ != worker))
    return "it sends parameters to begin with, and they came before";
  if (initial.range != shard_ || bytes != shard_.size() * sizeof(float))
    return fmt::format(
        "its first parameters, elements {} to {} in {} bytes, are not those of this shard, {} to "
        "{}",
        initial.range.begin, initial.range.end, bytes, shard_.begin, shard_.end);
  return {};
}

std::string InitialShard::complaint_about_state(int worker) const {
  if (!setup_.with_state) return "it sends an optimizer's state, which its setup does not announce";
  if (!parameters_came_ || *provider_ != worker)
    return "it sends an optimizer's state, and did not provide the parameters";
  return {};
}

std::string InitialShard::complaint_about(int worker, const StateUpdates& updates,
                                          std::uint64_t bytes) const {
  if (auto complaint = complaint_about_state(worker); !complaint.empty()) return complaint;
  if (updates_came_) return "it says twice how often tensors were updated";
  if (updates.range != shard_ || bytes != tensors_.size() * sizeof(double))
    return fmt::format(
        "it says in {} bytes how often the tensors of elements {} to {} were updated; this shard "
        "has {} tensors, in elements {} to {}",
        bytes, updates.range.begin, updates.range.end, tensors_.size(), shard_.begin, shard_.end);
  return {};
}

std::string InitialShard::complaint_about(int worker, const State& state,
                                          std::uint64_t bytes) const {
  if (auto complaint = complaint_about_state(worker); !complaint.empty()) return complaint;
  if (!updates_came_)
    return "it sends an optimizer's state before it says how often it was updated";
  const bool begins = at_ == shard_.end;
  const std::size_t slot = slots_.size() - (begins ? 0 : 1);
  const std::uint64_t at = begins ? shard_.begin : at_;
  const Range range = state.range;
  const bool expected = slot < state_slots(setup_) && state.slot == slot && range.begin == at &&
                        !range.empty() && range.end <= shard_.end;
  if (!expected || range.size() > kMostStateElements || bytes != range.size() * sizeof(float))
    return fmt::format(
        "it sends elements {} to {} of slot {} of its optimizer's state in {} bytes; what is "
        "missing here begins at element {} of slot {} of {}, and the shard ends at {}",
        range.begin, range.end, state.slot, bytes, at, slot, state_slots(setup_), shard_.end);
  return {};
}

net::Bytes InitialShard::room_for(int worker, const Initial& initial, std::uint64_t bytes) {
  if (!complaint_about(worker, initial, bytes).empty()) return {};
  provider_ = worker;
  if (parameters_.size() == 0) parameters_ = Floats(shard_.size());
  return std::as_writable_bytes(std::span(parameters_.data(), parameters_.size()));
}

net::Bytes InitialShard::room_for(int worker, const StateUpdates& updates, std::uint64_t bytes) {
  if (!complaint_about(worker, updates, bytes).empty()) return {};
  updates_.resize(tensors_.size());
  return std::as_writable_bytes(std::span(updates_));
}

net::Bytes InitialShard::room_for(int worker, const State& state, std::uint64_t bytes) {
  if (!complaint_about(worker, state, bytes).empty()) return {};
  if (state.range.begin == shard_.begin) {
    slots_.emplace_back(shard_.size());
    at_ = shard_.begin;
  }
  return std::as_writable_bytes(
      std::span(slots_.back().data() + (state.range.begin - shard_.begin), state.range.size()));
}

std::string InitialShard::add(int worker, const Initial& initial, net::ConstBytes payload) {
  if (auto complaint = complaint_about(worker, initial, payload.size()); !complaint.empty())
    return complaint;
  const net::Bytes room = room_for(worker, initial, payload.size());
  if (room.data() != payload.data()) std::memcpy(room.data(), payload.data(), room.size());
  parameters_came_ = true;
  return {};
}

std::string InitialShard::add(int worker, const StateUpdates& updates, net::ConstBytes payload) {
  if (auto complaint = complaint_about(worker, updates, payload.size()); !complaint.empty())
    return complaint;
  for (const double steps : updates_)
    if (!(steps >= 0 && steps < kMostSteps))
      return fmt::format("it says that a tensor has had {} steps", steps);
  updates_came_ = true;
  return {};
}

std::string InitialShard::add(int worker, const State& state, net::ConstBytes payload) {
  if (auto complaint = complaint_about(worker, state, payload.size()); !complaint.empty())
    return complaint;
  at_ = state.range.end;
  return {};
}

bool InitialShard::complete() const {
  const bool has_state = updates_came_ && slots_.size() == state_slots(setup_) && at_ == shard_.end;
  return parameters_came_ && (!setup_.with_state || has_state);
}

void InitialShard::move_into(Shard& shard) {
  const bool in_step =
      std::ranges::any_of(updates_, [](double steps) { return steps != std::floor(steps); });
  // Zeros that came take memory; those that are not touched take none.
  if (setup_.with_state && gathers_gradients(setup_) && !in_step)
    slots_.back() = Floats(shard_.size());
  shard.begin_with(std::move(parameters_), std::move(slots_));
  if (!setup_.with_state) return;
  for (std::size_t i = 0; i < tensors_.size(); ++i) shard.set_steps(tensors_[i].range, updates_[i]);
}

}  // namespace asup::ps
