// The help of a command with many flags: a short page of the common ones, pages for the rest.
// Functions only.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace asup::cli {

// A line to copy, and what it does.
struct Example {
  std::string line, what{};
};
std::string examples_block(const std::vector<Example>& examples);

// What a command says beside its flags.
struct HelpPage {
  std::string topic;  // --help TOPIC shows it
  std::string group;  // and so does --help GROUP, behind the group's flags
  std::string text;
};
struct HelpOptions {
  std::vector<std::string> common;  // flags of the short help: "--ranks"
  std::string list{};               // after them, in the short help
  std::vector<HelpPage> pages{};
  std::string page_word{};  // what a page is of: "WAY"
};

// -h, --help: the short help. --help all, --help GROUP, --help TOPIC: more. A group is one of the
// command's flags, or of its pages.
void add_help(CLI::App& command, HelpOptions options);

}  // namespace asup::cli
