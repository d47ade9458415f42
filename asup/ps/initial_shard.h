// What a shard begins with, as the worker that provides it sends it: the parameters, and, where the
// setup says so, the state of the rule: how often each tensor was updated, then each slot from its
// first element to its last, in pieces. Where workers have parts of the model, one worker provides
// each part. Nothing else is taken, and memory only for what is expected. It may come before the
// last worker has said what it trains. Runs under the mesh's lock.
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
  // What lies in the shard of a part of the model.
  struct Part {
    Range range;
    std::vector<layout::Part> tensors;  // what of each lies in it
    std::optional<int> provider{};
    bool parameters_came = false;
    std::vector<double> updates{};  // of each tensor
    bool updates_came = false;
    std::size_t slots = 0;  // that have begun to come; the last one is coming, up to `at`
    std::uint64_t at = 0;
  };

  // The one that a range is of; the first where it is of none, which does not expect it.
  std::size_t place_of(Range range) const;
  const Part& part_of(Range range) const { return parts_[place_of(range)]; }
  Part& part_of(Range range) { return parts_[place_of(range)]; }
  std::string complaint_about(int worker, const Initial& initial, std::uint64_t bytes) const;
  std::string complaint_about(int worker, const StateUpdates& updates, std::uint64_t bytes) const;
  std::string complaint_about(int worker, const State& state, std::uint64_t bytes) const;
  std::string complaint_about_state(int worker, const Part& part) const;
  net::Bytes room_in(Floats& floats, Range range);

  const Range shard_;
  const ServerSetup& setup_;
  std::vector<Part> parts_;
  Floats parameters_;
  std::vector<Floats> slots_;
};

}  // namespace asup::ps
