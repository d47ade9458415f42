#include "asup/net/transport/inbox.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace asup::net {
namespace {

// What is fetched with a header: a small message whole.
constexpr std::size_t kHeaderAhead = 16 * 1024;

// Payload that one call of progress() takes at most, about: other links are served too.
constexpr std::size_t kMostAtOnce = 256 * 1024;

// Buffers kept for messages that come before their receivers: fresh memory costs more than the
// copy.
constexpr std::size_t kMostSpares = 8;

using FrameKind = FrameHeader::Kind;

// What is wrong with a header whatever came before it; empty: nothing.
std::string breach_of_form(const FrameHeader& frame) {
  if (frame.version != kFrameVersion)
    return fmt::format("it sent a frame of version {}, not {}", frame.version, kFrameVersion);
  if (frame.kind < FrameKind::first || frame.kind > FrameKind::goodbye)
    return fmt::format("it sent a frame of kind {}", static_cast<int>(frame.kind));
  if (frame.head > (frame.kind == FrameKind::first ? kMaxHead : 0))
    return fmt::format("it sent a head of {} bytes", frame.head);
  const bool carries = frame.kind == FrameKind::first || frame.kind == FrameKind::more;
  if (frame.payload > (carries ? kMaxFramePayload : 0))
    return fmt::format("it sent a payload of {} bytes in one frame", frame.payload);
  return "";
}

std::uint64_t framed_size(const FrameHeader& frame) {
  return kUnit + round_up_to_unit(frame.head) + round_up_to_unit(frame.payload);
}

}  // namespace

Inbox::ChannelState& Inbox::ask_for(Channel channel) {
  ChannelState& state = channels_.of(channel);
  if (!std::exchange(state.asked, true)) ++asked_;
  return state;
}

void Inbox::receive(Channel channel, Receiver& receiver) {
  ChannelState& state = ask_for(channel);
  state.receivers.push_back(&receiver);
  if (!state.aside.empty() && !state.giving) give_aside(channel, state);
}

void Inbox::forget(Channel channel) {
  ChannelState& state = ask_for(channel);
  state.receivers.clear();
  while (!state.aside.empty()) take_aside(channel, state);
  if (state.message != Message::none) state.message = Message::dropped;
  state.closed = true;
}

// Feeds messages that came early to the receivers that now wait for them. A receiver that waits
// again as it ends gets the next one from here, not from within.
void Inbox::give_aside(Channel channel, ChannelState& state) {
  state.giving = true;
  while (!state.receivers.empty() && !state.aside.empty() && state.message != Message::received) {
    Aside message = take_aside(channel, state);
    Receiver& receiver = *state.receivers.front();
    const bool wanted = receiver.begin(message.head, message.total);
    const bool complete = message.payload.size() == message.total;
    if (wanted && !message.payload.empty()) receiver.take(message.payload);
    keep_spare(message.payload);
    if (!complete) state.message = wanted ? Message::received : Message::dropped;
    if (wanted && !complete) break;
    state.receivers.pop_front();
    if (wanted) receiver.end();
  }
  state.giving = false;
}

// The first of them; the peer may send as much again.
Inbox::Aside Inbox::take_aside(Channel channel, ChannelState& state) {
  Aside message = std::move(state.aside.front());
  state.aside.pop_front();
  aside_ -= message.memory();
  add_consumed(channel, state,
               kUnit + round_up_to_unit(message.head.size()) + message.payload.size());
  return message;
}

void Inbox::put_aside(ConstBytes bytes) {
  auto& payload = channel_->aside.back().payload;
  payload.insert(payload.end(), bytes.begin(), bytes.end());
  aside_ += bytes.size();
  aside_of_frame_ += bytes.size();
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
    return !goodbye_ && breach_.empty() && !ended_ &&
           (taken_ < kMostAtOnce || stage_ == Stage::padding);
  };
  while (goes_on() && stage_done()) moved = true;
  if (!breach_.empty()) return Progress::breach;
  if (goodbye_) return Progress::goodbye;
  return moved || taken_ > 0 ? Progress::some : Progress::none;
}

bool Inbox::read_header() {
  const ConstBytes there = wire_.peek(kUnit, kHeaderAhead);
  if (there.size() < kUnit) return false;
  std::memcpy(&frame_, there.data(), kUnit);
  wire_.skip(kUnit);
  breach_ = breach_of_form(frame_);
  if (!breach_.empty()) return false;
  if (frame_.kind == FrameKind::credit || frame_.kind == FrameKind::goodbye) return read_control();
  channel_ = &channels_.of(frame_.channel);
  breach_ = breach_of(*channel_);
  if (!breach_.empty()) return false;
  channel_->unpaid += framed_size(frame_);
  head_got_ = 0;
  payload_left_ = frame_.payload;
  aside_of_frame_ = 0;
  padding_left_ = round_up_to_unit(frame_.payload) - frame_.payload;
  stage_ = frame_.kind == FrameKind::first ? Stage::head : Stage::payload;
  return true;
}

bool Inbox::read_control() {
  if (frame_.kind == FrameKind::goodbye)
    goodbye_ = true;
  else if (!outbox_.add_credit(frame_.channel, frame_.total))
    breach_ = "it granted credit for more bytes than it was sent";
  return breach_.empty();
}

// What is wrong with the frame under way as the next of its channel.
std::string Inbox::breach_of(const ChannelState& state) const {
  const bool first = frame_.kind == FrameKind::first;
  const std::uint64_t left = first ? frame_.total : state.remaining;
  if (first && state.message != Message::none) return "it begins a message within another";
  if (!first && state.message == Message::none)
    return "it goes on with a message that it did not begin";
  if (frame_.payload > left) return "it sent more bytes than the message has";
  if (frame_.payload % kUnit != 0 && frame_.payload != left)
    return "it cuts a message within a unit";
  if (state.unpaid + framed_size(frame_) > kWindow) return "it sent more than it has credit for";
  if (!state.asked && channels_.size() - asked_ > kMostUnasked)
    return fmt::format("it opened {} channels that nobody asked for", channels_.size() - asked_);
  if (aside_ > kMostAside - kMaxFramePayload)
    return fmt::format("{} MiB of its messages had to be set aside", aside_ >> 20);
  return "";
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
  if (state.closed) {
    state.message = Message::dropped;
  } else if (!state.receivers.empty() && state.aside.empty()) {
    const bool wanted = state.receivers.front()->begin(head, frame_.total);
    state.message = wanted ? Message::received : Message::dropped;
    if (!wanted) state.receivers.pop_front();
  } else {
    state.message = Message::aside;
    state.aside.push_back(make_aside(head));
    aside_ += state.aside.back().memory();
    aside_of_frame_ = kUnit + round_up_to_unit(frame_.head);
  }
}

bool Inbox::read_payload() {
  ChannelState& state = *channel_;
  while (payload_left_ > 0) {
    std::size_t n = 0;
    const bool received = state.message == Message::received;
    if (const Bytes room = received ? state.receivers.front()->room() : Bytes{}; !room.empty()) {
      n = wire_.read(room.first(std::min(room.size(), payload_left_)));
      if (n > 0) state.receivers.front()->advance(n);
    } else {
      const ConstBytes there = wire_.peek(std::min(kUnit, payload_left_), payload_left_);
      n = std::min(there.size(), payload_left_);
      if (n < payload_left_) n = n / kUnit * kUnit;
      const ConstBytes bytes = there.first(n);
      if (n > 0 && received)
        state.receivers.front()->take(bytes);
      else if (n > 0 && state.message == Message::aside)
        put_aside(bytes);
      if (n > 0) wire_.skip(n);
    }
    if (n == 0) return false;
    payload_left_ -= n;
    taken_ += n;
    state.remaining -= n;
  }
  stage_ = Stage::padding;
  return true;
}

bool Inbox::skip_padding() {
  std::array<std::byte, kUnit> padding;
  padding_left_ -= wire_.read({padding.data(), padding_left_});
  if (padding_left_ > 0) return false;
  stage_ = Stage::header;
  ChannelState& state = *channel_;
  // What was put aside is credited when a receiver takes it, which may have been half-way through
  // this frame.
  add_consumed(frame_.channel, state, framed_size(frame_) - aside_of_frame_);
  if (state.remaining == 0) close_message(state);
  return true;
}

void Inbox::close_message(ChannelState& state) {
  if (std::exchange(state.message, Message::none) != Message::received) return;
  Receiver& receiver = *state.receivers.front();
  state.receivers.pop_front();
  receiver.end();
  ended_ = true;
}

void Inbox::add_consumed(Channel channel, ChannelState& state, std::uint64_t bytes) {
  state.consumed += bytes;
  if (state.consumed < kWindow / 4) return;
  outbox_.send_credit(channel, state.consumed);
  state.unpaid -= state.consumed;
  state.consumed = 0;
}

}  // namespace asup::net
