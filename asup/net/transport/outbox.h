// The sending half of a link: cuts messages into frames, lets channels take turns, and holds a
// channel back while its receiver has no room. Runs under the mesh's lock; never blocks.
#pragma once

#include <array>
#include <deque>
#include <vector>

#include "asup/net/transport/channels.h"
#include "asup/net/transport/frame.h"

namespace asup::net {

// A message on its way out; the caller keeps it, and what it points at, until `done`.
struct Outgoing {
  ConstBytes head;  // at most kMaxHead bytes
  ConstBytes payload;
  bool done = false;
};

class Outbox {
 public:
  explicit Outbox(Wire& wire) : wire_(wire) {}

  void send(Channel channel, Outgoing& message);
  void send_goodbye() { goodbye_due_ = true; }             // after all that can be sent now
  void send_credit(Channel channel, std::uint64_t bytes);  // to the peer, for what we consumed
  // From the peer; false: it is more than the peer was sent.
  bool add_credit(Channel channel, std::uint64_t bytes);
  // Forgets the channel's messages; the memory they point at is not touched again. Where one was
  // begun, nothing more goes through the channel: its receiver waits for the rest.
  void forget(Channel channel);

  bool progress();  // true when any byte was written
  bool empty() const {
    return written_ == size_ && ready_.empty() && credits_.empty() && !goodbye_due_;
  }
  std::uint64_t bytes_sent() const { return bytes_sent_; }
  // The same when the frame under way, which nothing can stop, is out.
  std::uint64_t bytes_bound_to_leave() const { return bytes_sent_ + size_ - written_; }

 private:
  struct ChannelState {
    std::deque<Outgoing*> messages;
    std::size_t offset = 0;  // payload of the front message that is framed already
    bool begun = false;      // its first frame is made
    bool cut = false;        // a message was given up half-way
    bool ready = false;      // in ready_
    std::uint64_t credit = kWindow;
  };

  void make_ready(Channel channel, ChannelState& state);
  bool next_frame();
  void frame_message(Channel channel, ChannelState& state);
  void set_frame(const FrameHeader& header, ConstBytes head, ConstBytes payload);
  void finish_frame();

  Wire& wire_;
  Channels<ChannelState> channels_;
  std::deque<Channel> ready_;        // have something to send and credit for it
  std::deque<FrameHeader> credits_;  // go first
  bool goodbye_due_ = false;         // goes last

  // The frame being written, which the wire may take in parts.
  alignas(kUnit) std::array<std::byte, kUnit + kMaxHead> small_{};  // header and head, padded
  std::size_t small_size_ = 0;
  ConstBytes payload_;
  std::size_t size_ = 0;     // of the whole frame, padding included
  std::size_t written_ = 0;  // == size_: no frame under way
  Channel frame_channel_ = 0;
  Outgoing* completes_ = nullptr;       // the message that this frame ends
  std::vector<std::byte> own_payload_;  // of a frame whose message was forgotten half-way

  std::uint64_t bytes_sent_ = 0;
};

}  // namespace asup::net
