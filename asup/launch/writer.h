// Writes to a descriptor that it shares with others (our own standard output) without ever waiting:
// what does not fit is kept, and full() asks for a pause. One thread; its loop calls it.
#pragma once

#include <string>
#include <string_view>

#include "asup/launch/poll_loop.h"

namespace asup::launch {

class Writer {
 public:
  Writer(PollLoop& loop, int fd) : loop_(loop), fd_(fd) {}
  Writer(const Writer&) = delete;
  ~Writer() { loop_.forget(fd_); }

  void write(std::string_view bytes);
  bool full() const { return pending_.size() > kFull; }
  bool empty() const { return pending_.empty(); }
  bool broken() const { return broken_; }  // nobody reads any more; what is written is dropped

 private:
  static constexpr std::size_t kFull = 256 * 1024;
  void flush();

  PollLoop& loop_;
  const int fd_;
  std::string pending_;
  bool broken_ = false;
};

}  // namespace asup::launch
