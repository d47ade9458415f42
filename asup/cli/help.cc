#include "asup/cli/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <memory>

#include "asup/base/suggest.h"
#include "asup/cli/usage.h"
#include "asup/report/format.h"

namespace asup::cli {
namespace {

constexpr const char* kOptions = "Options";  // the parser's group of flags that have no other

// "run-folder": a group as a word of a command line.
std::string word_of(std::string group) {
  for (char& c : group)
    c = c == ' ' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return group;
}

void add_once(std::vector<std::string>& words, const std::string& word) {
  if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
}

class Help {
 public:
  Help(const CLI::App& command, HelpOptions options)
      : command_(command), options_(std::move(options)) {}

  std::string page(const std::string& topic) const {
    if (topic.empty()) return short_page();
    if (topic == "all") return whole();
    for (const std::string& group : groups())
      if (word_of(group) == word_of(topic)) return page_of(group);
    for (const HelpPage& page : options_.pages)
      if (page.topic == topic) return page.text;
    throw CLI::ValidationError(fmt::format("--help {}: there is {}{}", topic,
                                           fmt::join(topics(), ", "),
                                           did_you_mean(topic, topics())));
  }

 private:
  std::vector<std::string> groups() const {
    std::vector<std::string> all;
    for (const CLI::Option* option : command_.get_options())
      if (!option->get_group().empty()) add_once(all, option->get_group());
    for (const HelpPage& page : options_.pages) add_once(all, page.group);
    return all;
  }

  std::vector<std::string> topics() const {
    std::vector<std::string> all{"all"};
    for (const std::string& group : groups()) add_once(all, word_of(group));
    for (const HelpPage& page : options_.pages) add_once(all, page.topic);
    return all;
  }

  bool is_common(const CLI::Option& option) const {
    const auto& common = options_.common;
    return option.get_group() == kOptions ||
           std::any_of(common.begin(), common.end(),
                       [&](const std::string& flag) { return option.check_name(flag); });
  }

  std::string head() const {
    return fmt::format("{}\n\n{}\n", command_.get_description(), usage_of(command_));
  }

  std::string rows_of(const std::string& group, bool brief) const {
    std::string rows;
    for (const CLI::Option* option : command_.get_options())
      if (option->get_group() == group && (!brief || is_common(*option)))
        rows += brief ? brief_row(*option) : flag_row(*option);
    return rows.empty() ? "" : fmt::format("{}:\n{}", group, rows);
  }

  std::string page_of(const std::string& group) const {
    std::string text = rows_of(group, false);
    for (const HelpPage& page : options_.pages)
      if (page.group == group) text += (text.empty() ? "" : "\n") + page.text;
    return text;
  }

  std::string short_page() const {
    std::string text = head() + "\n";
    for (const std::string& group : groups()) text += rows_of(group, true);
    return text + options_.list + "\n" + report::wrapped(more(), kHelpWidth, 2) + "\n" +
           command_.get_footer() + "\n";
  }

  std::string more() const {
    std::vector<std::string> words;
    for (const std::string& group : groups())
      if (group != kOptions) words.push_back(word_of(group));
    const auto& page = options_.page_word;
    return fmt::format("More: --help all{}, or --help GROUP: {}.",
                       page.empty() ? "" : ", --help " + page, fmt::join(words, ", "));
  }

  std::string whole() const {
    std::string text = head();
    for (const std::string& group : groups()) text += "\n" + page_of(group);
    return text + command_.get_footer() + "\n";
  }

  const CLI::App& command_;
  const HelpOptions options_;
};

}  // namespace

std::string examples_block(const std::vector<Example>& examples) {
  std::size_t width = 0;
  for (const Example& example : examples)
    if (!example.what.empty()) width = std::max(width, example.line.size());
  std::string text = "\nexamples:\n";
  for (const Example& example : examples)
    text += example.what.empty() ? fmt::format("  {}\n", example.line)
                                 : fmt::format("  {:<{}}  {}\n", example.line, width, example.what);
  return text;
}

void add_help(CLI::App& command, HelpOptions options) {
  auto help = std::make_shared<Help>(command, std::move(options));
  command.set_help_flag();
  // A CLI::Success with its text printed ends the program as the parser's own --help does.
  const auto show = [help](const std::vector<std::string>& topics) {
    const bool none = topics.empty() || topics.front() == "{}";
    std::fputs(help->page(none ? "" : topics.front()).c_str(), stdout);
    throw CLI::Success();
  };
  command
      .add_option_function<std::vector<std::string>>("-h,--help", show,
                                                     "Print this, or another page")
      ->type_name("TOPIC")
      ->expected(0, 1)
      ->trigger_on_parse();
}

}  // namespace asup::cli
