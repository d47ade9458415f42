#include "asup/launch/writer.h"

#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace asup::launch {

void Writer::write(std::string_view bytes) {
  if (broken_) return;
  pending_ += bytes;
  flush();
  if (!pending_.empty()) loop_.watch(fd_, POLLOUT, [this] { flush(); });
}

// The descriptor may not be made non-blocking, since others write to the same terminal. A poll
// first and then no more than a pipe takes in one piece comes to the same.
void Writer::flush() {
  std::size_t done = 0;
  while (done < pending_.size()) {
    pollfd fd{fd_, POLLOUT, 0};
    if (poll(&fd, 1, 0) <= 0) break;
    const std::size_t piece = std::min<std::size_t>(pending_.size() - done, PIPE_BUF);
    const ssize_t n = ::write(fd_, pending_.data() + done, piece);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) break;
    if (n < 0) {
      broken_ = true;
      done = pending_.size();
      break;
    }
    done += static_cast<std::size_t>(n);
  }
  pending_.erase(0, done);
  if (pending_.empty()) loop_.forget(fd_);
}

}  // namespace asup::launch
