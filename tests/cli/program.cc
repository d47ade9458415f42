#include "tests/cli/program.h"

#include <unistd.h>

#include <cstdlib>

#include "asup/base/error.h"

namespace asup::cli {

std::string program_path() {
  const char* program = std::getenv("ASUP_PROGRAM");
  check(program != nullptr, "ASUP_PROGRAM says which asup to test; ctest sets it");
  return program;
}

std::unique_ptr<launch::Launched> start(std::vector<std::string> words) {
  words.insert(words.begin(), program_path());
  return start_command(words);
}

std::unique_ptr<launch::Launched> start_command(const std::vector<std::string>& words) {
  return std::make_unique<launch::Launched>([words] {
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    execvp(argv[0], argv.data());
    return 99;
  });
}

Ended run(const std::vector<std::string>& words) {
  const auto program = start(words);
  const int status = program->wait();
  return {status, program->out_lines(), program->out(), program->last_line()};
}

}  // namespace asup::cli
