// The receiving half of a link: hands each channel's messages to its receivers in turn, straight
// from the wire where a receiver waits, by way of memory (kWindow bytes a channel at most) where
// none does yet. Runs under the mesh's lock; never blocks.
#pragma once

#include <array>
#include <deque>
#include <optional>
#include <vector>

#include "asup/net/transport/channels.h"
#include "asup/net/transport/frame.h"
#include "asup/net/transport/outbox.h"

namespace asup::net {

// Takes one message in. Calls come in the order begin, (room, advance | take)*, end.
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

  enum class Progress { none, some, goodbye, broken };
  Progress progress();

 private:
  struct Aside {  // a message, or the part of it that has come, without a receiver
    std::vector<std::byte> head;
    std::uint64_t total = 0;
    std::vector<std::byte> payload;
  };
  struct ChannelState {
    std::deque<Receiver*> receivers;
    bool receiving = false;       // the front receiver has begun
    std::uint64_t remaining = 0;  // payload of the message under way that is still to come
    std::deque<Aside> aside;      // only the last may be incomplete
    bool giving = false;          // messages aside are on their way to receivers
    bool dropping = false;        // the message under way is wanted by nobody
    bool closed = false;
    std::uint64_t consumed = 0;  // bytes as framed, since credit was last given
    std::uint64_t held = 0;      // bytes aside
  };

  bool read_header();  // false: not all there yet
  bool read_head();
  bool read_payload();
  bool skip_padding();
  void open_message();
  void close_message(ChannelState& state);
  void give_aside(Channel channel, ChannelState& state);
  Aside make_aside(ConstBytes head);
  void keep_spare(std::vector<std::byte>& payload);
  void add_consumed(Channel channel, ChannelState& state, std::uint64_t bytes);

  Wire& wire_;
  Outbox& outbox_;
  Channels<ChannelState> channels_;
  std::vector<std::vector<std::byte>> spares_;

  // The frame under way.
  enum class Stage { header, head, payload, padding } stage_ = Stage::header;
  FrameHeader frame_{};
  ChannelState* channel_ = nullptr;
  std::array<std::byte, kMaxHead> head_{};
  std::size_t head_got_ = 0;
  std::size_t payload_left_ = 0;
  std::size_t aside_of_frame_ = 0;  // of its payload
  std::size_t padding_left_ = 0;
  std::size_t taken_ = 0;  // payload in this progress()
  bool ended_ = false;     // a receiver has its message, in this progress()
  bool goodbye_ = false;
  bool broken_ = false;
};

}  // namespace asup::net
