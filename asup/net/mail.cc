#include "asup/net/mail.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "asup/base/error.h"
#include "asup/base/log.h"

namespace asup::net {

// Takes one member's messages in, one after the other.
class Mail::Letterbox : public Receiver {
 public:
  Letterbox(Mail& mail, int member) : mail_(mail), member_(member) {}

  void wait() { mail_.mesh_.link(member_).receive(mail_.channel_, *this); }
  int member() const { return member_; }
  bool gone() const { return gone_; }
  void set_gone() { gone_ = true; }

  bool begin(ConstBytes head, std::uint64_t total) override {
    head_.assign(head.begin(), head.end());
    got_ = 0;
    room_ = mail_.handler_.room_for(member_, head_, total);
    check(room_.empty() || room_.size() == total, "{} bytes of room for a payload of {}",
          room_.size(), total);
    collects_ = room_.empty();
    if (collects_ && total > kMostCollected) {
      log().warn("member {} sent {} bytes that nobody expects; they are dropped", member_, total);
      wait();
      return false;
    }
    if (collects_) collected_.resize(total);
    if (collects_) room_ = collected_;
    return true;
  }
  Bytes room() override { return room_.subspan(got_); }
  void advance(std::size_t bytes) override { got_ += bytes; }
  void take(ConstBytes bytes) override {
    std::memcpy(room_.data() + got_, bytes.data(), bytes.size());
    got_ += bytes.size();
  }
  void end() override {
    const auto head = head_;
    auto collected = std::move(collected_);
    collected_.clear();
    mail_.handler_.arrived(member_, head, collects_ ? Bytes(collected) : room_);
    wait();
  }

 private:
  Mail& mail_;
  const int member_;
  bool gone_ = false;
  std::vector<std::byte> head_;
  bool collects_ = false;
  std::vector<std::byte> collected_;
  Bytes room_;
  std::size_t got_ = 0;
};

struct Mail::Letter {
  std::array<std::byte, kMaxHead> head{};
  std::vector<std::byte> kept;
  std::function<void()> sent;
  Outgoing outgoing;
  int member = 0;
};

Mail::Mail(Mesh& mesh, std::uint64_t id, std::vector<int> members, Handler& handler)
    : mesh_(mesh), id_(id), channel_(id << 16), members_(std::move(members)), handler_(handler) {
  mesh_.add(id_, *this);
}

void Mail::open() {
  for (const int member : members_)
    if (member != mesh_.rank()) boxes_.push_back(std::make_unique<Letterbox>(*this, member));
  for (std::size_t i = 0; i < boxes_.size(); ++i) boxes_[i]->wait();
}

Mail::~Mail() {
  for (const auto& box : boxes_) mesh_.link(box->member()).forget(channel_);
  mesh_.remove(id_);
}

void Mail::send(int member, ConstBytes head, ConstBytes payload, std::function<void()> sent) {
  auto letter = std::make_unique<Letter>();
  check(head.size() <= letter->head.size(), "a head of {} bytes", head.size());
  std::copy(head.begin(), head.end(), letter->head.begin());
  letter->outgoing.head = ConstBytes(letter->head).first(head.size());
  letter->outgoing.payload = payload;
  letter->sent = std::move(sent);
  post(member, std::move(letter));
}

void Mail::send_kept(int member, ConstBytes head, std::vector<std::byte> payload) {
  auto letter = std::make_unique<Letter>();
  check(head.size() <= letter->head.size(), "a head of {} bytes", head.size());
  std::copy(head.begin(), head.end(), letter->head.begin());
  letter->kept = std::move(payload);
  letter->outgoing.head = ConstBytes(letter->head).first(head.size());
  letter->outgoing.payload = letter->kept;
  post(member, std::move(letter));
}

void Mail::post(int member, std::unique_ptr<Letter> letter) {
  if (mesh_.end_of(member) != LinkEnd::open) return;
  letter->member = member;
  Outgoing& outgoing = letter->outgoing;
  letters_.push_back(std::move(letter));
  mesh_.link(member).send(channel_, outgoing);
}

bool Mail::progress() {
  bool moved = false;
  // `sent` may send.
  for (std::size_t i = 0; i < letters_.size();) {
    if (!letters_[i]->outgoing.done) {
      ++i;
      continue;
    }
    const auto letter = std::move(letters_[i]);
    letters_.erase(letters_.begin() + static_cast<std::ptrdiff_t>(i));
    if (letter->sent) letter->sent();
    moved = true;
  }
  if (mesh_.endings() != endings_) look_for_the_gone();
  return handler_.progress() || moved;
}

void Mail::look_for_the_gone() {
  endings_ = mesh_.endings();
  for (const auto& box : boxes_) {
    const LinkEnd end = mesh_.end_of(box->member());
    if (box->gone() || end == LinkEnd::open) continue;
    box->set_gone();
    mesh_.link(box->member()).forget(channel_);
    std::erase_if(letters_, [&](const auto& letter) { return letter->member == box->member(); });
    handler_.gone(box->member(), end);
  }
}

}  // namespace asup::net
