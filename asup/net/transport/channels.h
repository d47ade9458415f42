// What each channel of a link is at, made when it is first asked for. Under the mesh's lock.
#pragma once

#include <unordered_map>

#include "asup/net/transport/frame.h"

namespace asup::net {

template <typename State>
class Channels {
 public:
  State& of(Channel channel) {
    if (!last_ || last_channel_ != channel) {
      last_channel_ = channel;
      last_ = &states_[channel];
    }
    return *last_;
  }

  // Null where nobody has asked for it yet.
  State* find(Channel channel) {
    const auto found = states_.find(channel);
    return found == states_.end() ? nullptr : &found->second;
  }

  std::size_t size() const { return states_.size(); }

 private:
  std::unordered_map<Channel, State> states_;  // which stay where they are
  Channel last_channel_ = 0;                   // asked for, and
  State* last_ = nullptr;                      // found: the next is often the same
};

}  // namespace asup::net
