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
#include <vector>

#include "asup/net/membership/roster.h"
#include "asup/net/membership/tls_mode.h"

namespace asup::net {

// Goes up when members of different versions could misunderstand each other.
inline constexpr int kControlVersion = 7;
inline constexpr std::size_t kMostBody = 1 << 20;

struct ControlFrame {
  enum class Kind : std::uint8_t {
    hello = 1,    // member → coordinator: Hello
    roster = 2,   // coordinator → member: RosterMessage; all are there
    refused = 3,  // coordinator → member: Refusal; the member cannot join, or the job failed
    heartbeat = 4,  // member → coordinator, each second; no body. coordinator → member, which need
                    // not answer: its host's kernel does
    lost = 5,     // coordinator → member: a Loss; of the receiver itself: it is left out
    left = 6,     // coordinator → member: a Member that said goodbye
    goodbye = 7,  // member → coordinator; no body
    closing = 8,  // coordinator → member: the coordinator ends in good order, or there is nothing
                  // left to do for the member; no body
    newcomers = 9,  // coordinator → member: others wait for the next generation; no body
    ready = 10,     // member → coordinator: a Ready
    full = 11,      // member → coordinator: why newcomers are not taken in
    cut = 12,       // member → coordinator: a Cut; the link to another has ended, or is silent
    late = 13       // member → coordinator: a Late; others do not come to where it is
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
  TlsMode tls = TlsMode::automatic;     // of the job's links
};

// A member that the others go on without.
struct Loss {
  Member member;
  bool ended = false;  // for sure, as its kernel said; else it may go on elsewhere
  std::string why;
  bool late = false;  // it is in reach, and does not come
};

// The sender's link to another member is of no use any more.
struct Cut {
  std::uint64_t id = 0;  // of the other
  bool breach = false;   // it broke the protocol; else nobody knows whose fault it is
};

// Workers that the sender, and all who are with it, have waited for as long as a call may take.
struct Late {
  std::vector<std::uint64_t> ids;      // theirs; none: the sender waits for nobody any more
  std::vector<std::uint64_t> workers;  // ids of those who last agreed to go on
};

// The sender waits for the next generation.
struct Ready {
  Member member;                       // as it is to be in it
  std::vector<std::uint64_t> workers;  // ids of those who last agreed to go on, itself among them
};

struct Refusal {
  std::string reason;
  bool can_be_mended = false;  // BadInput at the member, else JobFailed
};

std::string to_json(const Hello& hello);
std::string to_json(const RosterMessage& message);
std::string to_json(const Refusal& refusal);
std::string to_json(const Member& member);
std::string to_json(const Loss& loss);
std::string to_json(const Cut& cut);
std::string to_json(const Late& late);
std::string to_json(const Ready& ready);

// Each throws BadInput where the text is not what it should be.
Hello parse_hello(const std::string& text);
RosterMessage parse_roster(const std::string& text);
Refusal parse_refusal(const std::string& text);
Member parse_member(const std::string& text);
Loss parse_loss(const std::string& text);
Cut parse_cut(const std::string& text);
Late parse_late(const std::string& text);
Ready parse_ready(const std::string& text);

}  // namespace asup::net
