#include "asup/net/membership/control.h"

#include <nlohmann/json.hpp>

#include "asup/base/error.h"

namespace asup::net {
namespace {

using Json = nlohmann::json;
using Kind = ControlFrame::Kind;

constexpr std::size_t kHeader = 8;  // u32 length, little-endian; u8 kind; three zeros

// Bytes that are no UTF-8 (a hostname can hold any) must not make a message impossible.
std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json json_of(const Member& member) {
  Json json{
      {"id", member.id},           {"rank", member.rank},        {"hostname", member.hostname},
      {"pid", member.pid},         {"boot", member.host.boot},   {"netns", member.host.namespace_},
      {"tcp", member.tcp_address}, {"unix", member.unix_address}};
  if (member.server) json["server"] = *member.server;
  return json;
}

Member member_of(const Json& json) {
  Member member;
  json.at("id").get_to(member.id);
  json.at("rank").get_to(member.rank);
  if (json.contains("server")) member.server = json["server"].get<int>();
  json.at("hostname").get_to(member.hostname);
  json.at("pid").get_to(member.pid);
  json.at("boot").get_to(member.host.boot);
  json.at("netns").get_to(member.host.namespace_);
  json.at("tcp").get_to(member.tcp_address);
  json.at("unix").get_to(member.unix_address);
  return member;
}

// Turns whatever the JSON library finds wrong into a BadInput.
template <typename Function>
auto parse(const char* what, const std::string& text, Function function) {
  try {
    return function(Json::parse(text));
  } catch (const Json::exception& error) {
    throw BadInput(fmt::format("a {} message cannot be read: {}", what, error.what()));
  }
}

}  // namespace

std::string encode(Kind kind, const std::string& body) {
  check(body.size() <= kMostBody, "a control message of {} bytes", body.size());
  const auto length = static_cast<std::uint32_t>(body.size());
  std::string frame;
  for (int shift = 0; shift < 32; shift += 8) frame += static_cast<char>(length >> shift & 0xff);
  frame += static_cast<char>(kind);
  frame.append(3, '\0');
  return frame + body;
}

void FrameReader::feed(std::span<const std::byte> bytes) {
  pending_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::optional<ControlFrame> FrameReader::next() {
  if (pending_.size() < kHeader) return std::nullopt;
  std::uint32_t length = 0;
  for (std::size_t i = 0; i < 4; ++i)
    length |= static_cast<std::uint32_t>(static_cast<unsigned char>(pending_[i])) << 8 * i;
  const auto kind = static_cast<Kind>(pending_[4]);
  require(kind >= Kind::hello && kind <= Kind::full, "a frame of unknown kind {}",
          static_cast<int>(kind));
  require(length <= kMostBody, "a frame of {} bytes, more than the {} allowed", length, kMostBody);
  if (pending_.size() < kHeader + length) return std::nullopt;
  ControlFrame frame{kind, pending_.substr(kHeader, length)};
  pending_.erase(0, kHeader + length);
  return frame;
}

std::string to_json(const Hello& hello) {
  return text_of({{"protocol", hello.protocol},
                  {"version", hello.version},
                  {"size", hello.size},
                  {"servers", hello.servers},
                  {"joins", hello.joins},
                  {"member", json_of(hello.member)}});
}

std::string to_json(const RosterMessage& message) {
  Json members = Json::array();
  for (const Member& member : message.roster.members) members.push_back(json_of(member));
  Json json{{"generation", message.roster.generation},
            {"rank", message.rank},
            {"founders", message.founders},
            {"members", std::move(members)}};
  if (message.coordinator_rank) json["coordinator_rank"] = *message.coordinator_rank;
  return text_of(json);
}

std::string to_json(const Refusal& refusal) {
  return text_of({{"reason", refusal.reason}, {"can_be_mended", refusal.can_be_mended}});
}

std::string to_json(const Member& member) { return text_of(json_of(member)); }

Hello parse_hello(const std::string& text) {
  return parse("hello", text, [](const Json& json) {
    Hello hello;
    json.at("protocol").get_to(hello.protocol);
    json.at("version").get_to(hello.version);
    json.at("size").get_to(hello.size);
    hello.servers = json.value("servers", 0);  // older members, which are refused by their protocol
    require(hello.servers >= 0 && hello.servers < hello.size,
            "a hello message speaks of a job of {} members, {} of them servers", hello.size,
            hello.servers);
    hello.joins = json.value("joins", false);
    hello.member = member_of(json.at("member"));
    return hello;
  });
}

RosterMessage parse_roster(const std::string& text) {
  return parse("roster", text, [](const Json& json) {
    RosterMessage message;
    json.at("generation").get_to(message.roster.generation);
    for (const Json& member : json.at("members"))
      message.roster.members.push_back(member_of(member));
    json.at("rank").get_to(message.rank);
    json.at("founders").get_to(message.founders);
    require(message.rank >= 0 && message.rank < message.roster.size(),
            "a roster message gives place {} of {}", message.rank, message.roster.size());
    if (json.contains("coordinator_rank"))
      message.coordinator_rank = json["coordinator_rank"].get<int>();
    return message;
  });
}

Refusal parse_refusal(const std::string& text) {
  return parse("refused", text, [](const Json& json) {
    return Refusal{json.at("reason").get<std::string>(), json.at("can_be_mended").get<bool>()};
  });
}

Member parse_member(const std::string& text) { return parse("member", text, member_of); }

}  // namespace asup::net
