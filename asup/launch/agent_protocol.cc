#include "asup/launch/agent_protocol.h"

#include "asup/base/json.h"
#include "asup/base/version.h"

namespace asup::launch {
namespace {

using Json = nlohmann::json;
using Kind = AgentMessage::Kind;

std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// Ranks write any bytes, JSON holds only text: a byte travels as the character of its number.
std::string text_of(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      text += c;
    } else {
      text += static_cast<char>(0xc0 | byte >> 6);
      text += static_cast<char>(0x80 | (byte & 0x3f));
    }
  }
  return text;
}

std::string bytes_of(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool pair = byte >= 0xc0 && i + 1 < text.size();
    bytes += pair ? static_cast<char>(byte << 6 | (text[++i] & 0x3f)) : text[i];
  }
  return bytes;
}

AgentMessage message_of(const Json& json) {
  AgentMessage message{};
  const auto number = [&](const char* name) { return whole_in<int>(json, name); };
  if (json.contains("agent")) {
    message.kind = Kind::greeting;
    message.protocol = number("agent");
    message.text = json.at("host").get<std::string>();
  } else if (json.contains("started")) {
    message.kind = Kind::started;
    message.rank = number("started");
    message.pid = number("pid");
  } else if (json.contains("output")) {
    message.kind = Kind::output;
    message.rank = number("output");
    message.stream = json.at("stream").get<std::string>() == "err" ? Stream::err : Stream::out;
    message.text = bytes_of(json.at("data").get<std::string>());
  } else if (json.contains("ended")) {
    message.kind = Kind::ended;
    message.rank = number("ended");
    message.pid = number("pid");
    message.status = number("status");
    if (json.contains("note"))
      message.note = {
          static_cast<net::FailureNote::Kind>(whole_in<int>(json["note"], "kind", 0, 2)),
          json["note"].at("text").get<std::string>()};
  } else {
    message.kind = Kind::failed;
    message.text = json.at("failed").get<std::string>();
  }
  return message;
}

std::optional<int> whole_of(const std::string& line, const char* key) {
  try {
    return whole_in<int>(parse_json(line), key);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace

std::string greeting_line(const std::string& hostname) {
  return line_of({{"agent", kAgentProtocol}, {"host", hostname}, {"version", kVersion}});
}

std::string started_line(int rank, int pid) { return line_of({{"started", rank}, {"pid", pid}}); }

std::string output_line(int rank, Stream stream, std::string_view bytes) {
  return line_of({{"output", rank},
                  {"stream", stream == Stream::out ? "out" : "err"},
                  {"data", text_of(bytes)}});
}

std::string ended_line(const RankEnd& end) {
  Json json{{"ended", end.rank}, {"pid", end.pid}, {"status", end.status}};
  if (end.note)
    json["note"] = {{"kind", static_cast<int>(end.note->kind)}, {"text", end.note->text}};
  return line_of(json);
}

std::string failed_line(const std::string& why) { return line_of({{"failed", why}}); }
std::string signal_line(int number) { return line_of({{"signal", number}}); }
std::string kill_line(int rank) { return line_of({{"kill", rank}}); }

std::optional<AgentMessage> parse_agent_message(const std::string& line) {
  try {
    return message_of(parse_json(line));
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

std::optional<int> parse_signal_line(const std::string& line) { return whole_of(line, "signal"); }

std::optional<int> parse_kill_line(const std::string& line) { return whole_of(line, "kill"); }

}  // namespace asup::launch
