// The receiving half of a link: hands each channel's messages to its receivers in turn, straight
// from the wire where a receiver waits, by way of memory (kWindow bytes a channel at most) where
// none does yet. Every frame is checked against what its channel is at before a byte of it is
// taken. Runs under the mesh's lock; never blocks.
#pragma once

#include <array>
#include <deque>
#include <string>
#include <vector>

#include "asup/net/transport/channels.h"
#include "asup/net/transport/frame.h"
#include "asup/net/transport/outbox.h"

namespace asup::net {

// Takes one message in. Calls come in the order begin, (room, advance | take)*, end, and bring as
// many bytes as begin() said.
class Receiver {
 public:
  virtual ~Receiver() = default;
  // False: the receiver wants no byte of it and has told whom it concerns; it gets no other call.
  virtual bool begin(ConstBytes head, std::uint64_t total) = 0;
  // Where the next bytes belong, or nowhere: then they come by take(), in whole units but for the
  // last of the message.
  virtual Bytes room() = 0;
  virtual void advance(std::size_t bytes) = 0;
  virtual void take(ConstBytes bytes) = 0;
  virtual void end() = 0;
};

class Inbox {
 public:
  Inbox(Wire& wire, Outbox& outbox) : wire_(wire), outbox_(outbox) {}

  // The next message of the channel goes to `receiver`, after those of earlier receivers.
  void receive(Channel channel, Receiver& receiver);
  // Forgets the channel's receivers; what still comes for it is dropped.
  void forget(Channel channel);

  enum class Progress { none, some, goodbye, breach };
  Progress progress();
  // After a breach: what the peer did that no member does.
  const std::string& breach() const { return breach_; }

 private:
  struct Aside {  // a message, or the part of it that has come, without a receiver
    std::vector<std::byte> head;
    std::uint64_t total = 0;
    std::vector<std::byte> payload;

    std::size_t memory() const { return sizeof(Aside) + head.size() + payload.size(); }
  };
  // What becomes of the message under way: a first frame leads from none to one of the others, its
  // last byte back.
  enum class Message : std::uint8_t {
    none,
    received,  // by the front receiver
    aside,     // in the last of `aside`, or given from there already if all of it has come
    dropped    // wanted by nobody
  };
  struct ChannelState {
    std::deque<Receiver*> receivers;
    std::deque<Aside> aside;  // only the last may be incomplete
    Message message = Message::none;
    bool asked = false;           // somebody here has asked for the channel
    bool closed = false;          // and wants no more of it
    bool giving = false;          // messages aside are on their way to receivers
    std::uint64_t remaining = 0;  // payload of the message under way that is still to come
    std::uint64_t unpaid = 0;     // bytes as framed that came, without credit for them
    std::uint64_t consumed = 0;   // of them, those that credit is due for
  };

  bool read_header();  // false: not all there yet
  bool read_head();
  bool read_payload();
  bool skip_padding();
  bool read_control();
  std::string breach_of(const ChannelState& state) const;
  ChannelState& ask_for(Channel channel);
  void open_message();
  void close_message(ChannelState& state);
  void put_aside(ConstBytes payload);
  void give_aside(Channel channel, ChannelState& state);
  Aside take_aside(Channel channel, ChannelState& state);
  Aside make_aside(ConstBytes head);
  void keep_spare(std::vector<std::byte>& payload);
  void add_consumed(Channel channel, ChannelState& state, std::uint64_t bytes);

  Wire& wire_;
  Outbox& outbox_;
  Channels<ChannelState> channels_;
  std::size_t asked_ = 0;  // of the channels
  std::size_t aside_ = 0;  // memory of what lies aside, of all channels
  std::vector<std::vector<std::byte>> spares_;

  // The frame under way.
  enum class Stage { header, head, payload, padding } stage_ = Stage::header;
  FrameHeader frame_{};
  ChannelState* channel_ = nullptr;
  std::array<std::byte, kMaxHead> head_{};
  std::size_t head_got_ = 0;
  std::size_t payload_left_ = 0;
  std::size_t aside_of_frame_ = 0;  // of its bytes
  std::size_t padding_left_ = 0;
  std::size_t taken_ = 0;  // payload in this progress()
  bool ended_ = false;     // a receiver has its message, in this progress()
  bool goodbye_ = false;
  std::string breach_;
};

}  // namespace asup::net
