#include "asup/net/transport/link.h"

namespace asup::net {

void Link::forget(Channel channel) {
  inbox_.forget(channel);
  outbox_.forget(channel);
}

void Link::lose(std::string why) {
  end_ = LinkEnd::lost;
  why_ = std::move(why);
}

bool Link::progress() {
  if (end_ != LinkEnd::open || (outbox_.empty() && wire_->quiet())) return false;
  const bool closed = wire_->closed();  // before reading: what came before the end still counts
  const Inbox::Progress in = inbox_.progress();
  if (in == Inbox::Progress::goodbye)
    end_ = LinkEnd::left;
  else if (in == Inbox::Progress::breach)
    lose(inbox_.breach());
  else if (std::string breach = closed ? wire_->breach() : "";
           closed && (in == Inbox::Progress::none || !breach.empty()))
    lose(std::move(breach));
  if (end_ != LinkEnd::open) return true;
  const bool out = outbox_.progress();
  return out || in == Inbox::Progress::some;
}

}  // namespace asup::net
