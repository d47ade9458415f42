#include "asup/net/transport/link.h"

namespace asup::net {

void Link::forget(Channel channel) {
  inbox_.forget(channel);
  outbox_.forget(channel);
}

bool Link::progress() {
  if (end_ != LinkEnd::open || (outbox_.empty() && wire_->quiet())) return false;
  const bool closed = wire_->closed();  // before reading: what came before the end still counts
  const Inbox::Progress in = inbox_.progress();
  if (in == Inbox::Progress::goodbye)
    end_ = LinkEnd::left;
  else if (in == Inbox::Progress::broken || (closed && in == Inbox::Progress::none))
    end_ = LinkEnd::lost;
  if (end_ != LinkEnd::open) return true;
  const bool out = outbox_.progress();
  return out || in == Inbox::Progress::some;
}

}  // namespace asup::net
