#include "asup/net/membership/control.h"

#include <limits>

#include "asup/base/error.h"
#include "asup/base/json.h"
#include "asup/net/membership/address.h"

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

// What no member of any job exceeds.
constexpr int kMostMembers = 1 << 16;
constexpr std::uint64_t kMostGenerations = std::uint64_t{1} << 24;
constexpr std::size_t kMostText = 256;
constexpr std::size_t kMostUnixName = 100;  // a socket's name has 107 bytes

// A text as it may stand in a message: not long, and of one line.
std::string line_of(const Json& json, const char* key, std::size_t most = kMostText) {
  auto value = json.at(key).get<std::string>();
  require(value.size() <= most, "its '{}' has {} bytes, more than {}", key, value.size(), most);
  for (char& letter : value)
    if (static_cast<unsigned char>(letter) < ' ') letter = '?';
  return value;
}

Member member_of(const Json& json) {
  Member member;
  member.id = whole_in<std::uint64_t>(json, "id", 0, ~std::uint64_t{0});
  member.rank = whole_in<int>(json, "rank", -kMostMembers, kMostMembers);
  if (json.contains("server")) member.server = whole_in<int>(json, "server", 0, kMostMembers);
  member.hostname = line_of(json, "hostname");
  member.pid = whole_in<int>(json, "pid", 0, std::numeric_limits<int>::max());
  member.host.boot = line_of(json, "boot");
  member.host.namespace_ = line_of(json, "netns");
  member.tcp_address = line_of(json, "tcp");
  member.unix_address = line_of(json, "unix", kMostUnixName);
  if (!member.tcp_address.empty()) parse_endpoint(member.tcp_address, "its 'tcp'");
  return member;
}

std::vector<std::uint64_t> ids_of(const Json& json, const char* key) {
  const Json& list = json.at(key);
  require(list.is_array() && list.size() <= kMostMembers, "its '{}' are no list", key);
  std::vector<std::uint64_t> ids;
  for (const Json& id : list) {
    require(id.is_number_unsigned(), "its '{}' are no ids", key);
    ids.push_back(id.get<std::uint64_t>());
  }
  return ids;
}

// Turns whatever the JSON library finds wrong into a BadInput.
template <typename Function>
auto parse(const char* what, const std::string& text, Function function) {
  try {
    return function(parse_json(text));
  } catch (const Json::exception& error) {
    throw BadInput(fmt::format("a {} message cannot be read: {}", what, error.what()));
  } catch (const BadInput& error) {
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
  require(kind >= Kind::hello && kind <= Kind::late, "a frame of unknown kind {}",
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
            {"tls", to_text(message.tls)},
            {"members", std::move(members)}};
  if (message.coordinator_rank) json["coordinator_rank"] = *message.coordinator_rank;
  return text_of(json);
}

std::string to_json(const Refusal& refusal) {
  return text_of({{"reason", refusal.reason}, {"can_be_mended", refusal.can_be_mended}});
}

std::string to_json(const Member& member) { return text_of(json_of(member)); }

std::string to_json(const Loss& loss) {
  return text_of({{"member", json_of(loss.member)},
                  {"ended", loss.ended},
                  {"late", loss.late},
                  {"why", loss.why.substr(0, kMostText / 2)}});
}

std::string to_json(const Cut& cut) { return text_of({{"id", cut.id}, {"breach", cut.breach}}); }

std::string to_json(const Late& late) {
  return text_of({{"ids", late.ids}, {"workers", late.workers}});
}

std::string to_json(const Ready& ready) {
  return text_of({{"member", json_of(ready.member)}, {"workers", ready.workers}});
}

Hello parse_hello(const std::string& text) {
  return parse("hello", text, [](const Json& json) {
    Hello hello;
    hello.protocol = whole_in<int>(json, "protocol", 0, std::numeric_limits<int>::max());
    hello.version = line_of(json, "version");
    hello.size = whole_in<int>(json, "size", 0, kMostMembers);
    if (json.contains("servers"))  // not of older members, which are refused by their protocol
      hello.servers = whole_in<int>(json, "servers", -1, kMostMembers);
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
    message.roster.generation = whole_in<std::uint64_t>(json, "generation", 1, kMostGenerations);
    for (const Json& member : json.at("members"))
      message.roster.members.push_back(member_of(member));
    message.rank = whole_in<int>(json, "rank", 0, message.roster.size() - 1);
    message.founders = whole_in<int>(json, "founders", 0, kMostMembers);
    message.tls = tls_mode_of(json.at("tls").get<std::string>(), "its 'tls'");
    if (json.contains("coordinator_rank"))
      message.coordinator_rank = whole_in<int>(json, "coordinator_rank", 0, kMostMembers);
    return message;
  });
}

Refusal parse_refusal(const std::string& text) {
  return parse("refused", text, [](const Json& json) {
    return Refusal{json.at("reason").get<std::string>(), json.at("can_be_mended").get<bool>()};
  });
}

Member parse_member(const std::string& text) { return parse("member", text, member_of); }

Loss parse_loss(const std::string& text) {
  return parse("lost", text, [](const Json& json) {
    return Loss{member_of(json.at("member")), json.at("ended").get<bool>(), line_of(json, "why"),
                json.value("late", false)};
  });
}

Cut parse_cut(const std::string& text) {
  return parse("cut", text, [](const Json& json) {
    return Cut{whole_in<std::uint64_t>(json, "id", 1, ~std::uint64_t{0}),
               json.at("breach").get<bool>()};
  });
}

Late parse_late(const std::string& text) {
  return parse("late", text, [](const Json& json) {
    return Late{ids_of(json, "ids"), ids_of(json, "workers")};
  });
}

Ready parse_ready(const std::string& text) {
  return parse("ready", text, [](const Json& json) {
    return Ready{member_of(json.at("member")), ids_of(json, "workers")};
  });
}

}  // namespace asup::net
