// All of a call but its memory and its number: what is asked, and the plan that does it. Training
// repeats a handful of calls, so that each is worked out once. Used by one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "asup/collective/communicator.h"
#include "asup/collective/execute/envelope.h"

namespace asup::collective {

struct Prepared {
  Spec spec;
  Plan plan;
  Envelope envelope;           // without number and memory
  std::string_view algorithm;  // a row's of algorithms()
};

// What of a call decides it, on one communicator.
struct CallKey {
  CallKey(const Call& call, bool in_reach)
      : collective(call.collective),
        input_dtype(call.input.dtype),
        dtype(call.output.dtype),
        op(call.op),
        root(call.root),
        input(call.input.count),
        output(call.output.count),
        in_place(call.input.data == call.output.data),
        in_reach(in_reach),
        code(call.coding.code),
        algorithm(call.algorithm),
        counts(call.counts) {}

  Collective collective;
  Dtype input_dtype, dtype;
  ReduceOp op;
  int root;
  std::size_t input, output;  // elements
  bool in_place;
  bool in_reach;  // its buffers lie where all ranks reach them
  kernels::Code code;
  std::string algorithm;
  std::vector<std::size_t> counts;

  bool operator==(const CallKey&) const = default;
  // Without making a key of the call.
  bool is_of(const Call& call, bool reach) const {
    return collective == call.collective && input == call.input.count &&
           output == call.output.count && dtype == call.output.dtype &&
           input_dtype == call.input.dtype && op == call.op && root == call.root &&
           in_place == (call.input.data == call.output.data) && in_reach == reach &&
           code == call.coding.code && algorithm == call.algorithm && counts == call.counts;
  }
};

class PreparedCalls {
 public:
  // The one of this call; `make` makes it where it is new.
  template <typename Make>
  const std::shared_ptr<const Prepared>& find_or_make(const Call& call, bool in_reach, Make make) {
    if (last_ && last_->first.is_of(call, in_reach)) return last_->second;
    CallKey key(call, in_reach);
    auto found = known_.find(key);
    if (found == known_.end()) {
      auto prepared = std::make_shared<const Prepared>(make());
      if (known_.size() >= kMost) clear();
      found = known_.emplace(std::move(key), std::move(prepared)).first;
    }
    last_ = &*found;
    return last_->second;
  }
  void clear() {
    known_.clear();
    last_ = nullptr;
  }

 private:
  static constexpr std::size_t kMost = 256;

  struct Hash {
    std::size_t operator()(const CallKey& key) const {
      return (key.input * 31 + key.output) * 31 + static_cast<std::size_t>(key.collective) * 7 +
             static_cast<std::size_t>(key.root);
    }
  };
  using Known = std::unordered_map<CallKey, std::shared_ptr<const Prepared>, Hash>;
  Known known_;
  const Known::value_type* last_ = nullptr;  // asked for: the next is often the same
};

}  // namespace asup::collective
