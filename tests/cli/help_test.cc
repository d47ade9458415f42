// What the help of every command holds: examples that can be given, in 100 columns, on a page or
// two.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "tests/cli/program.h"
#include "tests/support/temporary_folder.h"

namespace asup::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

using Words = std::vector<std::string>;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Letters, not bytes.
std::ptrdiff_t width_of(const std::string& line) {
  return std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

// The indented lines below each such heading.
std::vector<std::string> lines_under(const std::string& heading, const std::string& text) {
  std::vector<std::string> found;
  bool below = false;
  for (const std::string& line : lines_of(text)) {
    below = line == heading || (below && line.starts_with("  "));
    if (below && line != heading) found.push_back(line.substr(2));
  }
  return found;
}

std::vector<std::string> names_under(const std::string& heading, const std::string& text) {
  std::vector<std::string> names;
  for (const std::string& line : lines_under(heading, text))
    if (!line.starts_with(' ')) names.push_back(line.substr(0, line.find(' ')));
  return names;
}

// As a shell takes them: 'in quotes' is one word.
Words words_of(const std::string& line) {
  Words words;
  bool quoted = false, inside = false;
  for (const char c : line) {
    if (c == '\'') quoted = !quoted;
    if (c == ' ' && !quoted) {
      inside = false;
    } else {
      if (!inside) words.emplace_back();
      inside = true;
      if (c != '\'') words.back() += c;
    }
  }
  return words;
}

// The arguments of asup in an example: what another program starts it by, and what it does, is cut
// off.
Words arguments_of(const std::string& example) {
  Words words = words_of(example.substr(0, example.find("  ")));
  words.erase(words.begin(), std::find(words.begin(), words.end(), "asup"));
  if (!words.empty()) words.erase(words.begin());
  return words;
}

std::string help_of(Words command, const std::string& topic = "") {
  command.emplace_back("--help");
  if (!topic.empty()) command.push_back(topic);
  const Ended ended = run(command);
  EXPECT_EQ(ended.status, 0) << ended.last_error;
  return ended.text;
}

// Every command that `asup --help` lists, and those inside them.
std::vector<Words> all_commands() {
  std::vector<Words> all{{}};
  for (const std::string& name : names_under("Commands:", help_of({}))) {
    all.push_back({name});
    for (const char* heading : {"Benchmarks:", "Commands:"})
      for (const std::string& inner : names_under(heading, help_of({name})))
        all.push_back({name, inner});
  }
  return all;
}

// The program parses them all, and runs none.
void expect_can_be_given(const std::vector<std::string>& examples) {
  std::string lines;
  for (const std::string& example : examples) {
    const Words words = arguments_of(example);
    EXPECT_FALSE(words.empty()) << example;
    for (const std::string& word : words) lines += (&word == &words.front() ? "" : "\t") + word;
    lines += "\n";
  }
  const asup::testing::TemporaryFolder folder;
  const auto program = start_command({"sh", "-c", "exec \"$0\" --dry-run - < \"$1\"",
                                      program_path(), folder.write("lines", lines)});
  EXPECT_EQ(program->wait(), 0) << program->err() << "of\n" << lines;
}

// Adds the page's examples to those.
void expect_page(const std::string& help, const std::string& of,
                 std::vector<std::string>& examples) {
  for (const std::string& line : lines_of(help)) EXPECT_LE(width_of(line), 100) << of << line;
  const auto own = lines_under("examples:", help);
  EXPECT_FALSE(own.empty()) << of << help;
  examples.insert(examples.end(), own.begin(), own.end());
}

TEST(Help, OfEveryCommandHasExamplesThatCanBeGiven) {
  const auto commands = all_commands();
  EXPECT_GE(commands.size(), 12u);
  std::vector<std::string> examples;
  for (const Words& command : commands) {
    std::string name = "asup";
    for (const std::string& word : command) name += " " + word;
    expect_page(help_of(command), name + ": ", examples);
  }
  expect_page(help_of({"train"}, "all"), "--help all: ", examples);
  expect_can_be_given(examples);
}

TEST(Help, OfTrainIsShortAndLeadsToTheRest) {
  const std::string help = help_of({"train"});
  EXPECT_LE(lines_of(help).size(), 60u) << help;
  EXPECT_THAT(help, AllOf(HasSubstr("--batch N"), HasSubstr("\n  diloco "), HasSubstr("--help all"),
                          HasSubstr("run-folder"), Not(HasSubstr("--outer-lr")),
                          Not(HasSubstr("--decay-factor"))));
  const std::string all = help_of({"train"}, "all");
  for (const char* flag : {"--batch N=128", "--decay-factor", "--outer-lr X=0.5", "--graph"})
    EXPECT_THAT(all, HasSubstr(flag));
}

TEST(Help, OfTrainHasAPageForEachGroupAndWay) {
  const std::string model = help_of({"train"}, "model");
  EXPECT_THAT(model, AllOf(StartsWith("Model:\n"), HasSubstr("--width N|auto=auto"),
                           Not(HasSubstr("--batch"))));
  EXPECT_EQ(help_of({"train"}, "Model"), model);
  EXPECT_THAT(help_of({"train"}, "run-folder"), HasSubstr("--keep-checkpoints"));
  EXPECT_THAT(help_of({"train"}, "servers"),
              AllOf(HasSubstr("--servers N|auto"), HasSubstr("--staleness"),
                    HasSubstr("asup train --sync asup")));
  EXPECT_THAT(help_of({"train"}, "diloco"),
              AllOf(HasSubstr("--outer-lr X=0.5"), HasSubstr("asup train --sync diloco"),
                    Not(HasSubstr("--batch"))));
  const Ended none = run({"train", "--help", "dilocco"});
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.last_error, HasSubstr("did you mean 'diloco'?"));
}

TEST(Help, OfRunIsShortAndLeadsToTheRest) {
  const std::string help = help_of({"run"});
  EXPECT_LE(lines_of(help).size(), 40u) << help;
  EXPECT_THAT(help, AllOf(StartsWith("Start a program"), HasSubstr("Usage: asup run"),
                          HasSubstr("--hosts a,b"), HasSubstr("--help all"),
                          HasSubstr("Exit status"), Not(HasSubstr("--grace"))));
  EXPECT_THAT(help_of({"run"}, "all"), AllOf(HasSubstr("--hosts a,b"), HasSubstr("--grace")));
  EXPECT_THAT(help_of({"run"}, "network"), AllOf(HasSubstr("--port"), Not(HasSubstr("--grace"))));
}

}  // namespace
}  // namespace asup::cli
