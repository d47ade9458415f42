// Messages between members about one subject, each with a small head and maybe a long payload, on a
// channel of its own of every link: what the parameter server and its workers talk by.
//
// Messages from one member come in the order it sent them. Everything here runs under the mesh's
// lock (loop.h), the handler's calls too, and returns at once.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "asup/base/error.h"
#include "asup/net/transport/mesh.h"

namespace asup::net {

class Messenger : private Mesh::Mover {
 public:
  // Payloads that come without room for them are collected; longer ones than this are refused.
  static constexpr std::size_t kMostCollected = std::size_t{64} << 20;

  class Handler {
   public:
    virtual ~Handler() = default;
    // Where the payload of a message belongs that begins to come: `bytes` of room, which stays
    // until arrived(), or none: then it is collected.
    virtual Bytes room_for(int member, ConstBytes head, std::uint64_t bytes) = 0;
    // `payload` is the room, or what was collected.
    virtual void arrived(int member, ConstBytes head, Bytes payload) = 0;
    // Nothing more comes from this member, and nothing reaches it. Once a member.
    virtual void gone(int member, LinkEnd end) = 0;
    // Called whenever the mesh moves, to do what waits; true when anything was done.
    virtual bool progress() { return false; }
    // The handler cannot go on: there is no memory for a message, or it threw this: a JobFailed, or
    // anything in progress() and gone(). Other things that it throws when a message comes are its
    // sender's fault. One that has nobody to tell throws again: then the sender's link ends.
    virtual void failed(const std::string& why) { throw Error(why); }
  };

  // With those members; `id` is the same on all of them, from Job::next_service_id(). The
  // handler outlives it.
  Messenger(Mesh& mesh, std::uint64_t id, std::vector<int> members, Handler& handler);
  ~Messenger() override;

  // From now on messages come; the first may come, and be answered, before this returns.
  void open();

  // The head is copied; the payload stays until `sent` is called, which it is not where the member
  // is gone or the messenger ends before. A gone member gets nothing.
  void send(int member, ConstBytes head, ConstBytes payload = {}, std::function<void()> sent = {});
  // The same, and keeps the payload.
  void send_kept(int member, ConstBytes head, std::vector<std::byte> payload);

  // Lets go of the memory of all messages that are still to leave; none comes in any more.
  void abandon();

  // Messages are still to leave.
  bool has_unsent() const { return !outgoing_.empty(); }

 private:
  class MessageReceiver;
  struct OutgoingMessage;

  bool progress() override;
  bool busy() override { return false; }
  void on_note(int, std::uint32_t, std::string_view) override {}
  void failed(const std::string& why) override { handler_.failed(why); }
  std::string name_of(int member) const {
    return mesh_.roster().members[static_cast<std::size_t>(member)].describe();
  }
  void look_for_the_gone();
  void post(int member, std::unique_ptr<OutgoingMessage> message);

  Mesh& mesh_;
  const std::uint64_t id_;
  const Channel channel_;
  const std::vector<int> members_;
  Handler& handler_;
  std::vector<std::unique_ptr<MessageReceiver>> receivers_;  // one a member
  std::deque<std::unique_ptr<OutgoingMessage>> outgoing_;    // on their way out
  std::uint64_t endings_ = 0;                                // of links, as last looked
};

}  // namespace asup::net
