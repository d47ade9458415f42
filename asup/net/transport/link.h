// An ordered, reliable connection between two members, carrying many channels, none of which blocks
// another. Everything here runs under the mesh's lock (loop.h) and returns at once.
#pragma once

#include <algorithm>
#include <memory>
#include <string>

#include "asup/net/transport/inbox.h"
#include "asup/net/transport/outbox.h"

namespace asup::net {

enum class LinkEnd {
  open,
  left,  // the peer said goodbye
  lost   // it died, its connection closed, or it sent what no member sends
};

class Link {
 public:
  explicit Link(std::unique_ptr<Wire> wire)
      : wire_(std::move(wire)), outbox_(*wire_), inbox_(*wire_, outbox_) {}

  Wire& wire() { return *wire_; }

  // Leaves at once where nothing is before it.
  void send(Channel channel, Outgoing& message) {
    const bool first = outbox_.empty();
    outbox_.send(channel, message);
    if (first && end_ == LinkEnd::open) outbox_.progress();
  }
  void receive(Channel channel, Receiver& receiver) { inbox_.receive(channel, receiver); }
  // Forgets what is not done on the channel and drops what still comes for it; the memory of its
  // messages is not touched again.
  void forget(Channel channel);

  // Moves what can be moved; true when anything did.
  bool progress();
  bool has_unsent() const { return !outbox_.empty(); }
  void send_goodbye() { outbox_.send_goodbye(); }
  LinkEnd end() const { return end_; }
  // Why it is lost, where more is known than that the connection ended; ends in no full stop.
  const std::string& why() const { return why_; }
  // The peer does not keep to the protocol.
  void lose(std::string why);
  std::uint64_t bytes_sent() const { return outbox_.bytes_sent(); }
  // The same of those that the peer's host has got, as far as can be told; and of those that will
  // leave though all channels be forgotten now.
  std::uint64_t bytes_delivered() const {
    return outbox_.bytes_sent() - std::min<std::uint64_t>(wire_->undelivered(), bytes_sent());
  }
  std::uint64_t bytes_bound_to_leave() const { return outbox_.bytes_bound_to_leave(); }

 private:
  std::unique_ptr<Wire> wire_;
  Outbox outbox_;
  Inbox inbox_;
  LinkEnd end_ = LinkEnd::open;
  std::string why_;
};

}  // namespace asup::net
