// A member that says what a test tells it to, for tests of members that break the protocol.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "asup/base/clock.h"
#include "tests/ps/group.h"

namespace asup::ps::testing {

class RawMember : private net::Messenger::Handler {
 public:
  explicit RawMember(net::MemberGroup group) : group_(group) {
    const net::MeshLock lock(group_.mesh.loop());
    messenger_.emplace(group_.mesh, group_.id, group_.members(),
                       static_cast<net::Messenger::Handler&>(*this));
    messenger_->open();
  }
  ~RawMember() override {
    const net::MeshLock lock(group_.mesh.loop());
    messenger_.reset();
  }

  template <typename Body>
  void send(int member, const Body& body, std::size_t bytes = 0) {
    say(member, body, std::vector<std::byte>(bytes));
  }
  template <typename Body>
  void say(int member, const Body& body, std::vector<std::byte> payload) {
    const net::MeshLock lock(group_.mesh.loop());
    messenger_->send_kept(member, head_of(body), std::move(payload));
  }
  // As a worker that trains all of the setup.
  void hello(int member, const ServerSetup& setup, Range shard) {
    const std::string text = to_text(setup);
    const auto text_bytes = std::as_bytes(std::span(text));
    const auto range_bytes = std::as_bytes(std::span(&shard, 1));
    std::vector<std::byte> payload(text_bytes.begin(), text_bytes.end());
    payload.insert(payload.end(), range_bytes.begin(), range_bytes.end());
    say(member, Hello{text.size(), {}}, std::move(payload));
  }

  // Returns when all that was said has left.
  void flush() {
    const net::MeshLock lock(group_.mesh.loop());
    group_.mesh.loop().drive([&] { return !messenger_->has_unsent(); }, after(Seconds(120)));
  }

  // What another member says next, of this kind or Refused: its payload as text.
  std::string wait_for(Kind kind) {
    const net::MeshLock lock(group_.mesh.loop());
    const auto came = [&] { return heard_.contains(kind) || heard_.contains(Kind::refused); };
    if (!group_.mesh.loop().drive(came, after(Seconds(120)))) return "nothing came";
    const auto found = heard_.contains(kind) ? heard_.find(kind) : heard_.find(Kind::refused);
    std::string text = found->second;
    heard_.erase(found);
    return text;
  }
  std::string refusal() { return wait_for(Kind::refused); }
  // Called with each message that comes.
  std::function<void(Kind)> on_message = [](Kind) {};

 private:
  net::Bytes room_for(int, net::ConstBytes, std::uint64_t) override { return {}; }
  void arrived(int, net::ConstBytes head, net::Bytes payload) override {
    const Kind kind = kind_of(head).value_or(Kind{});
    heard_[kind] = {reinterpret_cast<const char*>(payload.data()), payload.size()};
    on_message(kind);
  }
  void gone(int, net::LinkEnd) override {}

  const net::MemberGroup group_;
  std::optional<net::Messenger> messenger_;
  std::map<Kind, std::string> heard_;
};

}  // namespace asup::ps::testing
