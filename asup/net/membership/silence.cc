#include "asup/net/membership/silence.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>

namespace asup::net {

Seconds Silence::of(int socket, Clock::time_point now) {
  int waiting = 0;
  tcp_info info{};
  socklen_t length = sizeof info;
  const bool known = ioctl(socket, SIOCOUTQ, &waiting) == 0 && waiting > 0 &&
                     getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) == 0;
  if (!known) {
    since_.reset();
    return Seconds(0);
  }
  const auto acknowledged = now - std::chrono::milliseconds(info.tcpi_last_ack_recv);
  since_ = std::max(since_.value_or(now), acknowledged);
  return now - *since_;
}

}  // namespace asup::net
