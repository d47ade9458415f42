// What members and their coordinator say to each other, once both have proved the job's key:
// frames of a length, a kind and a short JSON body. docs/wire_format.md gives the bytes.
//
// Lengths and kinds are checked before memory is taken. Values only, except FrameReader, which
// belongs to one connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "asup/net/membership/roster.h"

namespace asup::net {

// Goes up when members of different versions could misunderstand each other.
inline constexpr int kControlVersion = 4;
inline constexpr std::size_t kMostBody = 1 << 20;

struct ControlFrame {
  enum class Kind : std::uint8_t {
    hello = 1,      // member → coordinator: Hello
    roster = 2,     // coordinator → member: RosterMessage; all are there
    refused = 3,    // coordinator → member: Refusal; the member cannot join, or the job failed
    heartbeat = 4,  // member → coordinator, each second; no body
    lost = 5,       // coordinator → member: a Member whose connection ended without goodbye
    left = 6,       // coordinator → member: a Member that said goodbye
    goodbye = 7,    // member → coordinator; no body
    closing = 8,  // coordinator → member: the coordinator ends in good order, or there is nothing
                  // left to do for the member; no body
    newcomers = 9,  // coordinator → member: others wait for the next generation; no body
    ready = 10,     // member → coordinator: a Member, as it is to be in the next generation
    full = 11       // member → coordinator: why newcomers are not taken in
  };
  Kind kind;
  std::string body;
};

std::string encode(ControlFrame::Kind kind, const std::string& body = "");

// Cuts a stream of bytes into frames.
class FrameReader {
 public:
  void feed(std::span<const std::byte> bytes);
  // The next whole frame. Throws BadInput where the bytes cannot be one.
  std::optional<ControlFrame> next();

 private:
  std::string pending_;
};

struct Hello {
  int protocol = kControlVersion;
  std::string version;  // of asup, for messages
  int size = 1;         // members of the job as the member knows it
  int servers = 0;      // how many of them are servers
  Member member;
  bool joins = false;  // a running job, as a worker of its next generation: place and size are not
                       // known yet
};

struct RosterMessage {
  Roster roster;
  int rank = 0;                         // the receiver's place in it
  std::optional<int> coordinator_rank;  // the rank that keeps the coordinator; none: the launcher
  int founders = 0;                     // members that the job began with: their ids are up to it
};

struct Refusal {
  std::string reason;
  bool can_be_mended = false;  // BadInput at the member, else JobFailed
};

std::string to_json(const Hello& hello);
std::string to_json(const RosterMessage& message);
std::string to_json(const Refusal& refusal);
std::string to_json(const Member& member);

// Each throws BadInput where the text is not what it should be.
Hello parse_hello(const std::string& text);
RosterMessage parse_roster(const std::string& text);
Refusal parse_refusal(const std::string& text);
Member parse_member(const std::string& text);

}  // namespace asup::net
