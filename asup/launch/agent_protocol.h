// What the launcher and the agent on another host say to each other over ssh's standard input and
// output, a line of JSON each.
//
//   launcher → agent   the HostJob first; then {"signal": 15} to all ranks, or {"kill": 3} of one.
//                      The end of the stream means that the launcher is gone, and the ranks go too.
//   agent → launcher   {"agent": 5, "host": "beta", "version": "0.1.0"} first, then
//                      {"started": 3, "pid": 4711}
//                      {"output": 3, "stream": "out", "data": "…"}   "" where the stream has ended
//                      {"ended": 3, "pid": 4711, "status": 9}        as waitpid gives it; with
//                      "note": {"kind": 1, "text": "…"} where the rank has left one
//                      {"failed": "cannot start ./program: …"}
//
// Values only.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "asup/launch/ranks.h"

namespace asup::launch {

inline constexpr int kAgentProtocol = 5;

struct AgentMessage {
  enum class Kind { greeting, started, output, ended, failed };
  Kind kind;
  int rank = 0;
  int pid = 0;
  int status = 0;
  int protocol = 0;
  std::optional<net::FailureNote> note{};
  Stream stream = Stream::out;
  std::string text;  // host, output or reason
};

// Each is a line with its end.
std::string greeting_line(const std::string& hostname);
std::string started_line(int rank, int pid);
std::string output_line(int rank, Stream stream, std::string_view bytes);
std::string ended_line(const RankEnd& end);
std::string failed_line(const std::string& why);
std::string signal_line(int number);
std::string kill_line(int rank);

// Nothing where the line is none of these: a login script's greeting, say.
std::optional<AgentMessage> parse_agent_message(const std::string& line);
// The signal's number, or nothing.
std::optional<int> parse_signal_line(const std::string& line);
// The rank, or nothing.
std::optional<int> parse_kill_line(const std::string& line);

}  // namespace asup::launch
