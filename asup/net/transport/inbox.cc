#include "asup/net/transport/inbox.h"

#include <algorithm>
#include <cstring>

namespace asup::net {
namespace {

// What is fetched with a header: a small message whole.
constexpr std::size_t kHeaderAhead = 16 * 1024;

// Payload that one call of progress() takes at most, about: other links are served too.
constexpr std::size_t kMostAtOnce = 256 * 1024;

// Buffers kept for messages that come before their receivers: fresh memory costs more than the
// copy.
constexpr std::size_t kMostSpares = 8;

bool well_formed(const FrameHeader& frame) {
  using Kind = FrameHeader::Kind;
  if (frame.version != kFrameVersion || frame.head > kMaxHead || frame.payload > kMaxFramePayload ||
      frame.payload > frame.total + kUnit)
    return false;
  return frame.kind == Kind::first || frame.kind == Kind::more || frame.kind == Kind::credit ||
         frame.kind == Kind::goodbye;
}

}  // namespace

void Inbox::receive(Channel channel, Receiver& receiver) {
  ChannelState& state = channels_.of(channel);
  state.receivers.push_back(&receiver);
  if (!state.aside.empty() && !state.giving) give_aside(channel, state);
}

void Inbox::forget(Channel channel) {
  ChannelState& state = channels_.of(channel);
  state.receivers.clear();
  state.aside.clear();
  state.dropping = state.dropping || state.remaining > 0;
  state.receiving = false;
  state.closed = true;
}

// Feeds messages that came early to the receivers that now wait for them. A receiver that waits
// again as it ends gets the next one from here, not from within.
void Inbox::give_aside(Channel channel, ChannelState& state) {
  state.giving = true;
  while (!state.receivers.empty() && !state.aside.empty() && !state.receiving) {
    Aside message = std::move(state.aside.front());
    state.aside.pop_front();
    Receiver& receiver = *state.receivers.front();
    const bool wanted = receiver.begin(message.head, message.total);
    const bool complete = message.payload.size() == message.total;
    state.held -= message.payload.size();
    add_consumed(channel, state, message.payload.size());
    if (wanted && !message.payload.empty()) receiver.take(message.payload);
    keep_spare(message.payload);
    if (wanted && !complete) {
      state.receiving = true;
      break;
    }
    state.receivers.pop_front();
    if (!complete) state.dropping = true;
    if (wanted) receiver.end();
  }
  state.giving = false;
}

Inbox::Aside Inbox::make_aside(ConstBytes head) {
  Aside aside{{head.begin(), head.end()}, frame_.total, {}};
  if (!spares_.empty() && frame_.total > 0) {
    aside.payload.swap(spares_.back());
    spares_.pop_back();
  }
  return aside;
}

void Inbox::keep_spare(std::vector<std::byte>& payload) {
  if (payload.capacity() == 0 || spares_.size() == kMostSpares) return;
  payload.clear();
  spares_.push_back(std::move(payload));
}

Inbox::Progress Inbox::progress() {
  bool moved = false;
  const auto stage_done = [&] {
    switch (stage_) {
      case Stage::header:
        return read_header();
      case Stage::head:
        return read_head();
      case Stage::payload:
        return read_payload();
      case Stage::padding:
        return skip_padding();
    }
    return false;
  };
  taken_ = 0;
  // A message that a receiver has got is passed on while it is in the cache, and the next of its
  // channel finds the receiver that is posted then.
  ended_ = false;
  // A frame whose payload is there is ended at once: the wire may bring nothing more to come back
  // for.
  const auto goes_on = [&] {
    return !goodbye_ && !broken_ && !ended_ && (taken_ < kMostAtOnce || stage_ == Stage::padding);
  };
  while (goes_on() && stage_done()) moved = true;
  if (broken_) return Progress::broken;
  if (goodbye_) return Progress::goodbye;
  return moved || taken_ > 0 ? Progress::some : Progress::none;
}

bool Inbox::read_header() {
  const ConstBytes there = wire_.peek(kUnit, kHeaderAhead);
  if (there.size() < kUnit) return false;
  std::memcpy(&frame_, there.data(), kUnit);
  wire_.skip(kUnit);
  if (!well_formed(frame_)) {
    broken_ = true;
    return false;
  }
  switch (frame_.kind) {
    case FrameHeader::Kind::credit:
      outbox_.add_credit(frame_.channel, frame_.total);
      return true;
    case FrameHeader::Kind::goodbye:
      goodbye_ = true;
      return true;
    default:
      break;
  }
  channel_ = &channels_.of(frame_.channel);
  head_got_ = 0;
  payload_left_ = frame_.payload;
  aside_of_frame_ = 0;
  padding_left_ = round_up_to_unit(frame_.payload) - frame_.payload;
  stage_ = frame_.kind == FrameHeader::Kind::first ? Stage::head : Stage::payload;
  return true;
}

bool Inbox::read_head() {
  const std::size_t size = round_up_to_unit(frame_.head);
  head_got_ += wire_.read({head_.data() + head_got_, size - head_got_});
  if (head_got_ < size) return false;
  open_message();
  stage_ = Stage::payload;
  return true;
}

void Inbox::open_message() {
  ChannelState& state = *channel_;
  const ConstBytes head = ConstBytes(head_).first(frame_.head);
  state.remaining = frame_.total;
  state.receiving = state.dropping = false;
  if (state.closed) {
    state.dropping = true;
  } else if (!state.receivers.empty() && state.aside.empty()) {
    if (state.receivers.front()->begin(head, frame_.total)) {
      state.receiving = true;
    } else {
      state.receivers.pop_front();
      state.dropping = true;
    }
  } else {
    state.aside.push_back(make_aside(head));
  }
}

bool Inbox::read_payload() {
  ChannelState& state = *channel_;
  while (payload_left_ > 0) {
    std::size_t n = 0;
    if (const Bytes room = state.receiving ? state.receivers.front()->room() : Bytes{};
        !room.empty()) {
      n = wire_.read(room.first(std::min(room.size(), payload_left_)));
      if (n > 0) state.receivers.front()->advance(n);
    } else {
      const ConstBytes there = wire_.peek(std::min(kUnit, payload_left_), payload_left_);
      n = std::min(there.size(), payload_left_);
      if (n < payload_left_) n = n / kUnit * kUnit;
      const ConstBytes bytes = there.first(n);
      if (n > 0 && state.receiving) {
        state.receivers.front()->take(bytes);
      } else if (n > 0 && !state.dropping) {
        auto& payload = state.aside.back().payload;
        payload.insert(payload.end(), bytes.begin(), bytes.end());
        state.held += n;
        aside_of_frame_ += n;
      }
      if (n > 0) wire_.skip(n);
    }
    if (n == 0) return false;
    payload_left_ -= n;
    taken_ += n;
    state.remaining -= std::min<std::uint64_t>(n, state.remaining);
  }
  if (state.held > 2 * kWindow) broken_ = true;  // the peer ignores the credit it has
  stage_ = Stage::padding;
  return true;
}

bool Inbox::skip_padding() {
  std::array<std::byte, kUnit> padding;
  padding_left_ -= wire_.read({padding.data(), padding_left_});
  if (padding_left_ > 0) return false;
  stage_ = Stage::header;
  ChannelState& state = *channel_;
  const std::uint64_t framed =
      kUnit + round_up_to_unit(frame_.head) + round_up_to_unit(frame_.payload);
  // What was put aside is credited when a receiver takes it, which may have been half-way through
  // this frame.
  add_consumed(frame_.channel, state, framed - aside_of_frame_);
  if (state.remaining == 0) close_message(state);
  return true;
}

void Inbox::close_message(ChannelState& state) {
  state.dropping = false;
  if (!state.receiving) return;
  state.receiving = false;
  Receiver& receiver = *state.receivers.front();
  state.receivers.pop_front();
  receiver.end();
  ended_ = true;
}

void Inbox::add_consumed(Channel channel, ChannelState& state, std::uint64_t bytes) {
  state.consumed += bytes;
  if (state.consumed < kWindow / 4) return;
  outbox_.send_credit(channel, state.consumed);
  state.consumed = 0;
}

}  // namespace asup::net
