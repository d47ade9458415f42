#include "asup/base/command_line.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace asup {
namespace {

constexpr const char* kVariable = "ASUP_COMMAND_LINE";

std::string for_shell(const std::string& word) {
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("-_=./,:+@%").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_plain)) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace

std::string command_line() {
  if (const char* left = std::getenv(kVariable); left != nullptr && *left != '\0') return left;
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  std::string line;
  for (std::string word; std::getline(in, word, '\0');)
    line += line.empty() ? std::filesystem::path(word).filename().string() : " " + for_shell(word);
  return line;
}

std::string command_line_variable() { return std::string(kVariable) + "=" + command_line(); }

}  // namespace asup
