// A member of a job whose peers are a fuzz input: real links, mesh and messages over wires in
// memory.
#pragma once

#include <memory>
#include <vector>

#include "asup/net/member_group.h"
#include "asup/net/transport/message_head.h"
#include "asup/net/transport/region.h"
#include "tests/fuzz/input.h"
#include "tests/net/transport/memory_wire.h"

namespace asup::fuzz {

// With one region of the peer's memory, number 1.
class PeerWire : public net::MemoryWire {
 public:
  static constexpr std::size_t kRegion = 1 << 16;

  explicit PeerWire(std::shared_ptr<const net::Region> memory) : memory_(std::move(memory)) {}
  net::WireAbilities abilities() const override {
    return {.name = "memory", .shares_memory = memory_ != nullptr};
  }
  std::shared_ptr<const net::Region> reach(std::uint32_t id) override {
    return id == 1 ? memory_ : nullptr;
  }

 private:
  std::shared_ptr<const net::Region> memory_;
};

class Peers {
 public:
  static constexpr std::uint64_t kService = 7;

  // The member `rank` of so many workers and servers. `shares`: the peers' memory can be reached.
  Peers(int rank, int workers, int servers, bool shares) : workers_(workers), servers_(servers) {
    static const auto memory =
        std::make_shared<const net::Region>(net::Region::make(PeerWire::kRegion));
    net::Roster roster{1, {}};
    std::vector<std::unique_ptr<net::Wire>> wires;
    for (int member = 0; member < workers + servers; ++member) {
      net::Member& place = roster.members.emplace_back();
      place.id = static_cast<std::uint64_t>(member) + 1;
      place.rank = member;
      if (member >= workers) place.server = member - workers;
      auto wire = member == rank ? nullptr : std::make_unique<PeerWire>(shares ? memory : nullptr);
      wires_.push_back(wire.get());
      wires.push_back(std::move(wire));
    }
    mesh_ = std::make_unique<net::Mesh>(std::move(roster), rank, std::move(wires));
  }

  net::Mesh& mesh() { return *mesh_; }
  net::MemberGroup group() { return {*mesh_, kService, workers_, servers_}; }

  // Brings a message of the service from that member; what is long comes in several frames.
  void say(int member, net::ConstBytes head, net::ConstBytes payload) {
    say_on(kService << 16, member, head, payload);
  }
  void say_on(net::Channel channel, int member, net::ConstBytes head, net::ConstBytes payload) {
    const net::MeshLock lock(mesh_->loop());
    PeerWire* wire = wires_[static_cast<std::size_t>(member)];
    if (!wire || head.size() > net::kMaxHead) return;
    auto kind = net::FrameHeader::Kind::first;
    std::size_t left = payload.size();
    do {
      const std::size_t n = std::min(left, net::kMaxFramePayload);
      const bool first = kind == net::FrameHeader::Kind::first;
      const net::FrameHeader header{kind,
                                    net::kFrameVersion,
                                    static_cast<std::uint16_t>(first ? head.size() : 0),
                                    static_cast<std::uint32_t>(n),
                                    channel,
                                    payload.size(),
                                    0};
      wire->bring(std::as_bytes(std::span(&header, 1)));
      if (first) bring_padded(*wire, head);
      bring_padded(*wire, payload.subspan(payload.size() - left, n));
      left -= n;
      kind = net::FrameHeader::Kind::more;
    } while (left > 0);
  }
  template <typename Body>
  void say_body(int member, const Body& body, net::ConstBytes payload = {}) {
    say(member, net::head_of(body), payload);
  }
  // A message of this kind, of what the input says.
  template <typename Body>
  void say_any(int member, Input& input) {
    const Body body = input.number<Body>();
    say_body(member, body, input.piece());
  }
  void leave(int member) {
    const net::MeshLock lock(mesh_->loop());
    const net::FrameHeader goodbye{net::FrameHeader::Kind::goodbye};
    if (PeerWire* wire = wires_[static_cast<std::size_t>(member)])
      wire->bring(std::as_bytes(std::span(&goodbye, 1)));
  }

  // Until all that was brought has been taken, or its link has ended.
  void settle() {
    const net::MeshLock lock(mesh_->loop());
    mesh_->loop().drive(
        [&] {
          for (int member = 0; member < mesh_->size(); ++member) {
            PeerWire* wire = wires_[static_cast<std::size_t>(member)];
            if (wire && mesh_->end_of(member) == net::LinkEnd::open && !wire->quiet()) return false;
          }
          return true;
        },
        after(Seconds(10)));
  }

 private:
  static void bring_padded(PeerWire& wire, net::ConstBytes bytes) {
    wire.bring(bytes);
    const std::vector<std::byte> padding(net::round_up_to_unit(bytes.size()) - bytes.size());
    wire.bring(padding);
  }

  const int workers_, servers_;
  std::vector<PeerWire*> wires_;  // null at our own
  std::unique_ptr<net::Mesh> mesh_;
};

}  // namespace asup::fuzz
