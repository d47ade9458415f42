#include "asup/net/transport/outbox.h"

#include <algorithm>
#include <cstring>

#include "asup/base/error.h"

namespace asup::net {
namespace {

constexpr std::array<std::byte, kUnit> kPadding{};

// A frame smaller than this is not worth sending while more of the message waits for credit.
constexpr std::size_t kMinFramePayload = 16 * 1024;

}  // namespace

void Outbox::send(Channel channel, Outgoing& message) {
  check(message.head.size() <= kMaxHead, "message head of {} bytes", message.head.size());
  ChannelState& state = channels_.of(channel);
  message.done = state.cut;
  if (state.cut) return;
  state.messages.push_back(&message);
  make_ready(channel, state);
}

void Outbox::send_credit(Channel channel, std::uint64_t bytes) {
  credits_.push_back({FrameHeader::Kind::credit, kFrameVersion, 0, 0, channel, bytes, 0});
}

bool Outbox::add_credit(Channel channel, std::uint64_t bytes) {
  ChannelState* state = channels_.find(channel);
  if (!state || bytes > kWindow - state->credit) return false;
  state->credit += bytes;
  make_ready(channel, *state);
  return true;
}

void Outbox::forget(Channel channel) {
  if (written_ != size_ && frame_channel_ == channel) {  // the frame itself must still end
    own_payload_.assign(payload_.begin(), payload_.end());
    payload_ = own_payload_;
    completes_ = nullptr;
  }
  if (ChannelState* state = channels_.find(channel)) {
    state->messages.clear();
    state->cut = state->cut || state->begun;
    state->begun = false;
    state->offset = 0;
  }
}

void Outbox::make_ready(Channel channel, ChannelState& state) {
  if (state.ready || state.messages.empty()) return;
  const Outgoing& message = *state.messages.front();
  const std::size_t left = message.payload.size() - state.offset;
  const std::size_t least = std::min(left, kMinFramePayload);
  if (state.credit < kUnit + kMaxHead + least) return;
  state.ready = true;
  ready_.push_back(channel);
}

bool Outbox::progress() {
  bool moved = false;
  while (written_ != size_ || next_frame()) {
    std::array<ConstBytes, 3> pieces{};
    std::size_t n = 0;
    const std::size_t body = small_size_ + payload_.size();
    if (written_ < small_size_)
      pieces[n++] = ConstBytes(small_).subspan(written_, small_size_ - written_);
    if (written_ < body)
      pieces[n++] = payload_.subspan(std::max(written_, small_size_) - small_size_);
    if (body < size_) {
      const std::size_t padded = std::max(written_, body) - body;
      pieces[n++] = ConstBytes(kPadding).first(size_ - body - padded);
    }
    const std::size_t taken = wire_.write({pieces.data(), n});
    if (taken == 0) return moved;
    moved = true;
    written_ += taken;
    bytes_sent_ += taken;
    if (written_ == size_) finish_frame();
  }
  return moved;
}

bool Outbox::next_frame() {
  if (!credits_.empty()) {
    set_frame(credits_.front(), {}, {});
    credits_.pop_front();
    return true;
  }
  while (!ready_.empty()) {
    const Channel channel = ready_.front();
    ready_.pop_front();
    ChannelState& state = channels_.of(channel);
    state.ready = false;
    if (state.messages.empty()) continue;
    frame_message(channel, state);
    make_ready(channel, state);
    return true;
  }
  if (!goodbye_due_) return false;
  goodbye_due_ = false;
  set_frame({FrameHeader::Kind::goodbye, kFrameVersion, 0, 0, 0, 0, 0}, {}, {});
  return true;
}

void Outbox::frame_message(Channel channel, ChannelState& state) {
  Outgoing& message = *state.messages.front();
  const bool first = !state.begun;
  const ConstBytes head = first ? message.head : ConstBytes{};
  const std::size_t overhead = kUnit + round_up_to_unit(head.size());
  const std::size_t left = message.payload.size() - state.offset;
  std::size_t size = std::min(left, kMaxFramePayload);
  if (overhead + round_up_to_unit(size) > state.credit)
    size = (state.credit - overhead) / kUnit * kUnit;
  set_frame({first ? FrameHeader::Kind::first : FrameHeader::Kind::more, kFrameVersion,
             static_cast<std::uint16_t>(head.size()), static_cast<std::uint32_t>(size), channel,
             message.payload.size(), 0},
            head, message.payload.subspan(state.offset, size));
  state.credit -= size_;
  state.offset += size;
  state.begun = true;
  if (state.offset == message.payload.size()) {
    completes_ = &message;
    state.messages.pop_front();
    state.offset = 0;
    state.begun = false;
  }
}

void Outbox::set_frame(const FrameHeader& header, ConstBytes head, ConstBytes payload) {
  std::memcpy(small_.data(), &header, sizeof header);
  if (!head.empty()) std::memcpy(small_.data() + kUnit, head.data(), head.size());
  small_size_ = kUnit + round_up_to_unit(head.size());
  payload_ = payload;
  frame_channel_ = header.channel;
  size_ = small_size_ + round_up_to_unit(payload.size());
  written_ = 0;
}

void Outbox::finish_frame() {
  if (completes_) completes_->done = true;
  completes_ = nullptr;
}

}  // namespace asup::net
