#include "asup/launch/rank_end.h"

#include <fmt/format.h>
#include <string.h>
#include <sys/wait.h>

#include <algorithm>

#include "asup/net/membership/roles.h"

namespace asup::launch {

bool RankEnd::killed() const { return WIFSIGNALED(status); }
int RankEnd::signal() const { return WTERMSIG(status); }
int RankEnd::exit_code() const { return WEXITSTATUS(status); }

std::string RankEnd::who() const {
  return fmt::format("{} (pid {} on {})", net::name_member(rank, server), pid, hostname);
}

std::string RankEnd::how() const {
  if (!killed()) return fmt::format("exited with status {}", exit_code());
  std::string text = fmt::format("was killed by signal {} ({})", signal(), signal_name(signal()));
  if (signal() == SIGKILL) text += "; where nobody did that, the host ran out of memory";
  return text;
}

std::string RankEnd::describe() const {
  if (!note) return who() + " " + how();
  std::string words = note->text;
  std::replace(words.begin(), words.end(), '\n', ' ');
  if (note->kind == net::FailureNote::Kind::others) return words;
  return fmt::format("{} failed: {}", who(), words);
}

std::string signal_name(int number) {
  const char* name = sigabbrev_np(number);
  return name ? fmt::format("SIG{}", name) : fmt::format("signal {}", number);
}

namespace {

bool is_victim(const RankEnd& end) {
  return end.note && end.note->kind == net::FailureNote::Kind::others;
}

std::optional<RankEnd> first_of(const std::vector<RankEnd>& ends, const std::vector<int>& lost,
                                bool victims) {
  const auto find = [&](auto condition) {
    return std::find_if(ends.begin(), ends.end(), [&](const RankEnd& end) {
      const bool bad = !end.ok() && !end.stopped && !end.excused;
      return bad && is_victim(end) == victims && condition(end);
    });
  };
  auto found = ends.end();
  for (std::size_t i = 0; i < lost.size() && found == ends.end(); ++i)
    found = find([&](const RankEnd& end) { return end.rank == lost[i]; });
  if (found == ends.end()) found = find([](const RankEnd& end) { return end.killed(); });
  if (found == ends.end()) found = find([](const RankEnd&) { return true; });
  return found == ends.end() ? std::nullopt : std::optional(*found);
}

}  // namespace

std::optional<RankEnd> culprit(const std::vector<RankEnd>& ends, const std::vector<int>& lost) {
  const auto found = first_of(ends, lost, false);
  return found ? found : first_of(ends, lost, true);
}

}  // namespace asup::launch
