#include "asup/bench/faults/members.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>

namespace asup::bench {
namespace {

// "NAME=value" one after the other, each with a zero at its end; empty where it has ended.
std::string environment_of(const std::filesystem::path& process) {
  std::ifstream file(process / "environ", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::optional<std::string_view> value_in(std::string_view environment, std::string_view name) {
  while (!environment.empty()) {
    const std::string_view variable = environment.substr(0, environment.find('\0'));
    if (variable.starts_with(name) && variable.substr(name.size()).starts_with('='))
      return variable.substr(name.size() + 1);
    environment.remove_prefix(std::min(environment.size(), variable.size() + 1));
  }
  return std::nullopt;
}

int number(std::string_view text) {
  int value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

struct Process {
  pid_t pid = -1;
  std::string environment;
};

std::vector<Process> all_with(const std::string& variable) {
  const std::size_t equals = variable.find('=');
  std::vector<Process> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const int pid = number(entry.path().filename().string());
    if (pid <= 0) continue;
    Process process{pid, environment_of(entry.path())};
    if (value_in(process.environment, variable.substr(0, equals)) == variable.substr(equals + 1))
      found.push_back(std::move(process));
  }
  return found;
}

std::vector<pid_t> members_with(const std::string& variable, bool servers) {
  std::vector<std::pair<int, pid_t>> found;
  for (const Process& process : all_with(variable)) {
    const auto rank = value_in(process.environment, "ASUP_RANK");
    const bool is_server = !value_in(process.environment, "ASUP_SERVER_RANK").value_or("").empty();
    if (rank && is_server == servers) found.emplace_back(number(*rank), process.pid);
  }
  std::ranges::sort(found);
  std::vector<pid_t> pids;
  for (const auto& [rank, pid] : found) pids.push_back(pid);
  return pids;
}

}  // namespace

std::vector<pid_t> processes_with(const std::string& variable) {
  std::vector<pid_t> pids;
  for (const Process& process : all_with(variable)) pids.push_back(process.pid);
  return pids;
}

std::vector<pid_t> workers_with(const std::string& variable) {
  return members_with(variable, false);
}

std::vector<pid_t> servers_with(const std::string& variable) {
  return members_with(variable, true);
}

}  // namespace asup::bench
