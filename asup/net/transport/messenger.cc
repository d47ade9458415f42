#include "asup/net/transport/messenger.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/base/out_of_memory.h"

namespace asup::net {

// Takes one member's messages in, one after the other.
class Messenger::MessageReceiver : public Receiver {
 public:
  MessageReceiver(Messenger& messenger, int member) : messenger_(messenger), member_(member) {}

  void wait() { messenger_.mesh_.link(member_).receive(messenger_.channel_, *this); }
  int member() const { return member_; }
  bool gone() const { return gone_; }
  void set_gone() { gone_ = true; }

  bool begin(ConstBytes head, std::uint64_t total) override {
    total_ = total;
    got_ = 0;
    bool wanted = false;
    guarded([&] { wanted = find_room(head); });
    if (!wanted) wait();
    return wanted;
  }
  Bytes room() override { return room_.subspan(got_); }
  void advance(std::size_t bytes) override { got_ += bytes; }
  void take(ConstBytes bytes) override {
    std::memcpy(room_.data() + got_, bytes.data(), bytes.size());
    got_ += bytes.size();
  }
  void end() override {
    guarded([&] {
      messenger_.handler_.arrived(member_, head_, collects_ ? Bytes(collected_) : room_);
    });
    collected_ = {};
    wait();
  }

 private:
  bool find_room(ConstBytes head) {
    head_.assign(head.begin(), head.end());
    room_ = messenger_.handler_.room_for(member_, head_, total_);
    check(room_.empty() || room_.size() == total_, "{} bytes of room for a payload of {}",
          room_.size(), total_);
    collects_ = room_.empty();
    if (collects_ && total_ > kMostCollected) {
      log().warn("member {} sent {} bytes that nobody expects; they are dropped", member_, total_);
      return false;
    }
    if (collects_) collected_.resize(total_);
    if (collects_) room_ = collected_;
    return true;
  }

  // What is no fault of the sender's, the handler is told.
  template <typename Action>
  void guarded(const Action& action) {
    try {
      action();
    } catch (const JobFailed& error) {
      messenger_.handler_.failed(error.what());
    } catch (const std::exception& error) {
      if (!is_out_of_memory(error)) throw;
      out_of_memory();
    }
  }
  // Nor is it where the handler has nobody to tell.
  void out_of_memory() {
    const std::string why = fmt::format(
        "{} ran out of memory while it took a message of {} bytes from {}",
        messenger_.name_of(messenger_.mesh_.rank()), total_, messenger_.name_of(member_));
    try {
      messenger_.handler_.failed(why);
    } catch (const std::exception&) {
      throw OutOfMemory(why);
    }
  }

  Messenger& messenger_;
  const int member_;
  bool gone_ = false;
  std::vector<std::byte> head_;
  std::uint64_t total_ = 0;
  bool collects_ = false;
  std::vector<std::byte> collected_;
  Bytes room_;
  std::size_t got_ = 0;
};

struct Messenger::OutgoingMessage {
  std::array<std::byte, kMaxHead> head{};
  std::vector<std::byte> kept;
  std::function<void()> sent;
  Outgoing outgoing;
  int member = 0;
};

Messenger::Messenger(Mesh& mesh, std::uint64_t id, std::vector<int> members, Handler& handler)
    : mesh_(mesh), id_(id), channel_(id << 16), members_(std::move(members)), handler_(handler) {
  mesh_.add(id_, *this);
}

void Messenger::open() {
  for (const int member : members_)
    if (member != mesh_.rank())
      receivers_.push_back(std::make_unique<MessageReceiver>(*this, member));
  for (std::size_t i = 0; i < receivers_.size(); ++i)
    mesh_.receive(receivers_[i]->member(), channel_, *receivers_[i]);
}

Messenger::~Messenger() {
  abandon();
  mesh_.remove(id_);
}

void Messenger::abandon() {
  for (const auto& receiver : receivers_) mesh_.link(receiver->member()).forget(channel_);
  outgoing_.clear();
}

void Messenger::send(int member, ConstBytes head, ConstBytes payload, std::function<void()> sent) {
  auto message = std::make_unique<OutgoingMessage>();
  check(head.size() <= message->head.size(), "a head of {} bytes", head.size());
  std::copy(head.begin(), head.end(), message->head.begin());
  message->outgoing.head = ConstBytes(message->head).first(head.size());
  message->outgoing.payload = payload;
  message->sent = std::move(sent);
  post(member, std::move(message));
}

void Messenger::send_kept(int member, ConstBytes head, std::vector<std::byte> payload) {
  auto message = std::make_unique<OutgoingMessage>();
  check(head.size() <= message->head.size(), "a head of {} bytes", head.size());
  std::copy(head.begin(), head.end(), message->head.begin());
  message->kept = std::move(payload);
  message->outgoing.head = ConstBytes(message->head).first(head.size());
  message->outgoing.payload = message->kept;
  post(member, std::move(message));
}

void Messenger::post(int member, std::unique_ptr<OutgoingMessage> message) {
  if (mesh_.end_of(member) != LinkEnd::open) return;
  message->member = member;
  Outgoing& outgoing = message->outgoing;
  outgoing_.push_back(std::move(message));
  mesh_.link(member).send(channel_, outgoing);
}

bool Messenger::progress() {
  bool moved = false;
  // `sent` may send.
  for (std::size_t i = 0; i < outgoing_.size();) {
    if (!outgoing_[i]->outgoing.done) {
      ++i;
      continue;
    }
    const auto message = std::move(outgoing_[i]);
    outgoing_.erase(outgoing_.begin() + static_cast<std::ptrdiff_t>(i));
    if (message->sent) message->sent();
    moved = true;
  }
  if (mesh_.endings() != endings_) look_for_the_gone();
  return handler_.progress() || moved;
}

void Messenger::look_for_the_gone() {
  endings_ = mesh_.endings();
  for (const auto& receiver : receivers_) {
    const LinkEnd end = mesh_.end_of(receiver->member());
    if (receiver->gone() || end == LinkEnd::open) continue;
    receiver->set_gone();
    mesh_.link(receiver->member()).forget(channel_);
    std::erase_if(outgoing_,
                  [&](const auto& message) { return message->member == receiver->member(); });
    handler_.gone(receiver->member(), end);
  }
}

}  // namespace asup::net
