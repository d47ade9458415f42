// Words for people who mistyped, and the last line of a failed command. Functions only.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>

namespace asup::cli {

// "unknown flag --wrokers; did you mean '--workers'?", from the flags of the command.
std::string unknown_flag(const CLI::App& command, const std::string& flag);

// The message for a command line that the parser refused.
std::string explain(const CLI::App& app, const CLI::ParseError& error);

// "asup run: message" on standard error, after everything that was written before.
void print_last_line(const std::string& command, const std::string& message);

inline constexpr int kHelpWidth = 100;
// "  name       text" in kHelpWidth, the text in lines of their own where it is long.
std::string help_row(const std::string& name, const std::string& text);
// The row of a flag; the brief one has its text up to the first ';', and choices that are long in
// the text.
std::string flag_row(const CLI::Option& option);
std::string brief_row(const CLI::Option& option);

// Makes `line` the first of the command's help, in place of the parser's own "Usage: …".
void set_usage(CLI::App& command, std::string line);
// needs: set_usage().
std::string usage_of(const CLI::App& command);

// Refuses numbers outside [least, most]: "must be between 1 and 10, not 0".
template <typename T>
CLI::Validator between(T least, T most) {
  return CLI::Validator(
      [=](std::string& text) {
        T value{};
        const bool inside =
            CLI::detail::lexical_cast(text, value) && value >= least && value <= most;
        return inside ? std::string()
                      : fmt::format("must be between {} and {}, not {}", least, most, text);
      },
      "");
}

// "asup train", for the command that was called; "asup" where none was.
std::string called_name(const CLI::App& app);

}  // namespace asup::cli
