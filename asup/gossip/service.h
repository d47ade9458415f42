// What is spoken to by messages, answers them under the mesh's lock, and belongs to the thread that
// trains: that thread hears of what the service cannot go on after. Needs the lock.
#pragma once

#include <string>

#include "asup/base/error.h"
#include "asup/net/transport/messenger.h"

namespace asup::gossip {

class Service : protected net::Messenger::Handler {
 protected:
  bool has_failed() const { return !failure_.empty(); }
  // Throws Error that says why.
  void require_sound() const {
    if (has_failed()) throw Error(failure_);
  }

 private:
  void failed(const std::string& why) final {
    if (failure_.empty()) failure_ = why;
  }

  std::string failure_;
};

}  // namespace asup::gossip
