// All of a call but its memory and its number: what is asked, and the plan that does it. Training
// repeats a handful of calls, so that each is worked out once. Used by one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "asup/collective/communicator.h"
#include "asup/collective/envelope.h"

namespace asup::collective {

struct Prepared {
  Spec spec;
  Plan plan;
  Envelope envelope;  // without number and memory
};

// What of a call decides it, on one communicator.
struct CallKey {
  Collective collective;
  Dtype input_dtype, dtype;
  ReduceOp op;
  int root;
  std::size_t input, output;  // elements
  bool in_place;
  bool in_reach;  // its buffers lie where all ranks reach them
  std::string algorithm;
  std::vector<std::size_t> counts;

  bool operator==(const CallKey&) const = default;
};

class PreparedCalls {
 public:
  // The one of this key; `make` makes it where it is new.
  template <typename Make>
  std::shared_ptr<const Prepared> find_or_make(const CallKey& key, Make make) {
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
    if (known_.size() >= kMost) known_.clear();
    auto prepared = std::make_shared<const Prepared>(make());
    known_.emplace(key, prepared);
    return prepared;
  }
  void clear() { known_.clear(); }

 private:
  static constexpr std::size_t kMost = 256;

  struct Hash {
    std::size_t operator()(const CallKey& key) const {
      return (key.input * 31 + key.output) * 31 + static_cast<std::size_t>(key.collective) * 7 +
             static_cast<std::size_t>(key.root);
    }
  };
  std::unordered_map<CallKey, std::shared_ptr<const Prepared>, Hash> known_;
};

}  // namespace asup::collective
