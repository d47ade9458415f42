#include "asup/cli/usage.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "asup/base/suggest.h"
#include "asup/report/format.h"
#include "asup/report/terminal.h"

namespace asup::cli {
namespace {

std::vector<std::string> flags_of(const CLI::App& command) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
    for (const std::string& name : option->get_snames()) flags.push_back("-" + name);
  }
  return flags;
}

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    if (!command->get_group().empty()) names.push_back(command->get_name());
  return names;
}

// The command that was called last: of `asup bench step`, step.
const CLI::App& innermost(const CLI::App& app) {
  const auto called = app.get_subcommands();
  return called.empty() ? app : innermost(*called.back());
}

std::string unknown_command(const CLI::App& app, const std::string& word) {
  const auto known = commands_of(app);
  if (known.empty()) return fmt::format("'{}' was not expected", word);
  std::string list;
  for (const std::string& name : known) list += (list.empty() ? "" : ", ") + name;
  const std::string suggestion = did_you_mean(word, known);
  return fmt::format("unknown command '{}'{}", word,
                     suggestion.empty() ? " (there are: " + list + ")" : suggestion);
}

constexpr int kColumn = 30;

// "--lr"
std::string names_of(const CLI::Option& option) {
  std::string names = option.get_name(option.get_positional(), true);
  if (const auto note = names.find("{false}"); note != names.npos) names.erase(note, 7);
  return names;
}

// "X|auto", without the parser's notes on ranges and choices, which the texts give.
std::string form_of(const CLI::Option& option) {
  if (option.get_type_size() == 0) return "";
  const std::string type = option.get_type_name();
  return type.substr(0, type.find(':'));
}

std::string flag_with(const CLI::Option& option, const std::string& form) {
  const std::string usual = option.get_default_str();
  return names_of(option) + (form.empty() ? "" : " " + form) + (usual.empty() ? "" : "=" + usual);
}

// Help in 100 columns.
class Formatter : public CLI::Formatter {
 public:
  Formatter(const CLI::App& command, std::string line) : command_(command), line_(std::move(line)) {
    column_width(kColumn);
  }
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    std::string text = CLI::Formatter::make_help(app, std::move(name), mode);
    for (std::size_t gap; (gap = text.find("\n\n\n")) != text.npos;) text.erase(gap, 1);
    return text;
  }
  // Commands inside a command inherit its formatter, but not its line.
  std::string make_usage(const CLI::App* app, std::string name) const override {
    if (app == &command_) return "\n" + line_ + "\n";
    return "\n" + CLI::Formatter::make_usage(app, std::move(name));
  }
  std::string make_option(const CLI::Option* option, bool) const override {
    return flag_row(*option);
  }
  std::string make_subcommand(const CLI::App* command) const override {
    return help_row(command->get_name(), command->get_description());
  }
  const std::string& line() const { return line_; }

 private:
  const CLI::App& command_;
  const std::string line_;
};

}  // namespace

std::string help_row(const std::string& name, const std::string& text) {
  const std::string first = "  " + name;
  const std::string lines = report::wrapped(text, kHelpWidth - kColumn, kColumn);
  if (report::visible_width(first) >= kColumn)
    return fmt::format("{}\n{:{}}{}\n", first, "", kColumn, lines);
  return fmt::format("{:{}}{}\n", first, kColumn, lines);
}

std::string flag_row(const CLI::Option& option) {
  return help_row(flag_with(option, form_of(option)), option.get_description());
}

std::string brief_row(const CLI::Option& option) {
  std::string form = form_of(option), text = option.get_description();
  text = text.substr(0, text.find("; "));
  if (std::ssize(flag_with(option, form)) + 3 > kColumn && form.find('|') != form.npos)
    text += ": " + std::exchange(form, "");
  return help_row(flag_with(option, form), text);
}

void set_usage(CLI::App& command, std::string line) {
  command.formatter(std::make_shared<Formatter>(command, std::move(line)));
}

std::string usage_of(const CLI::App& command) {
  return dynamic_cast<const Formatter&>(*command.get_formatter()).line();
}

std::string unknown_flag(const CLI::App& command, const std::string& flag) {
  const std::string name = flag.substr(0, flag.find('='));
  return fmt::format("unknown flag {}{}", name, did_you_mean(name, flags_of(command)));
}

std::string explain(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = innermost(app);
  const std::string what = error.what();
  const std::string subject = what.substr(0, what.find(':'));
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr)
    return subject + " needs a value";
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const auto words = app.remaining(true);
    for (const std::string& word : words)
      if (word.size() > 1 && word.starts_with('-')) return unknown_flag(command, word);
    if (!words.empty()) return unknown_command(command, words.front());
  }
  return what;
}

void print_last_line(const std::string& command, const std::string& message) {
  std::fflush(stdout);
  const int room = report::Terminal(STDERR_FILENO).room();
  fmt::print(stderr, "{}\n", report::wrapped(fmt::format("{}: {}", command, message), room));
  std::fflush(stderr);
}

std::string called_name(const CLI::App& app) {
  std::string name = "asup";
  for (const CLI::App* command = &app; !command->get_subcommands().empty();) {
    command = command->get_subcommands().back();
    name += " " + command->get_name();
  }
  return name;
}

}  // namespace asup::cli
