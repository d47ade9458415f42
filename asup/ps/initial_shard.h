// What a shard begins with, as the worker that provides it sends it: the parameters, and, where the
// setup says so, the state of the rule: how often each tensor was updated, then each slot from its
// first element to its last, in pieces. Nothing else is taken, and memory only for what is
// expected. It may come before the last worker has said what it trains. Runs under the mesh's lock.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "asup/ps/message.h"
#include "asup/ps/server_setup.h"
#include "asup/ps/shard.h"

namespace asup::ps {

class InitialShard {
 public:
  // `setup` stays as it is.
  InitialShard(Range shard, const ServerSetup& setup);

  // Where the payload of a message belongs; none where it is not expected: then add() says why.
  net::Bytes room_for(int worker, const Initial& initial, std::uint64_t bytes);
  net::Bytes room_for(int worker, const StateUpdates& updates, std::uint64_t bytes);
  net::Bytes room_for(int worker, const State& state, std::uint64_t bytes);

  // A message has come; `payload` is its room, or, of the parameters, the worker's own memory. A
  // complaint where it is not the one that is expected.
  std::string add(int worker, const Initial& initial, net::ConstBytes payload);
  std::string add(int worker, const StateUpdates& updates, net::ConstBytes payload);
  std::string add(int worker, const State& state, net::ConstBytes payload);

  bool complete() const;
  // needs: complete()
  void move_into(Shard& shard);

 private:
  std::string complaint_about(int worker, const Initial& initial, std::uint64_t bytes) const;
  std::string complaint_about(int worker, const StateUpdates& updates, std::uint64_t bytes) const;
  std::string complaint_about(int worker, const State& state, std::uint64_t bytes) const;
  std::string complaint_about_state(int worker) const;

  const Range shard_;
  const ServerSetup& setup_;
  const std::vector<layout::Part> tensors_;  // what of each lies in the shard
  std::optional<int> provider_;
  Floats parameters_;
  bool parameters_came_ = false;
  std::vector<double> updates_;  // of each tensor
  bool updates_came_ = false;
  std::vector<Floats> slots_;  // the last one is coming, up to at_
  std::uint64_t at_;
};

}  // namespace asup::ps
