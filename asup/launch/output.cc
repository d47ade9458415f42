#include "asup/launch/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "asup/base/error.h"

namespace asup::launch {
namespace {

bool wants_colour(int fd) { return isatty(fd) == 1 && std::getenv("NO_COLOR") == nullptr; }

// "[3] " for rank 3, "[server 0] " for server 0.
std::string prefix_of(int rank, std::optional<int> server, bool colour) {
  const std::string name = server ? fmt::format("server {}", *server) : std::to_string(rank);
  if (!colour) return fmt::format("[{}] ", name);
  constexpr std::array kColours = {36, 33, 32, 35, 34, 96, 93, 92, 95, 94};
  return fmt::format("\033[{}m[{}]\033[0m ", kColours[static_cast<std::size_t>(rank) % 10], name);
}

}  // namespace

Output::Output(PollLoop& loop, Options options)
    : options_(std::move(options)),
      colour_out_(wants_colour(STDOUT_FILENO)),
      colour_err_(wants_colour(STDERR_FILENO)),
      out_(loop, STDOUT_FILENO),
      err_(loop, STDERR_FILENO) {
  if (options_.directory.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(options_.directory, error);
  require(!error, "cannot make the folder {}: {}", options_.directory, error.message());
}

void Output::take(int rank, Stream stream, std::string_view bytes) {
  if (!options_.directory.empty()) return write_file(rank, bytes);
  Lines& lines = lines_[{rank, stream}];
  const bool colour = stream == Stream::out ? colour_out_ : colour_err_;
  const std::string prefix =
      options_.prefix ? prefix_of(rank, options_.roles.server(rank), colour) : "";
  std::string text;
  for (const std::string& line : bytes.empty() ? lines.finish() : lines.feed(bytes))
    text += prefix + line + "\n";
  if (!text.empty()) write(stream, text);
}

void Output::write(Stream stream, const std::string& text) {
  const bool was_broken = out_.broken();
  (stream == Stream::out ? out_ : err_).write(text);
  if (out_.broken() && !was_broken)
    note("standard output is closed; what the ranks write to it is dropped from here on");
}

void Output::note(const std::string& line) { err_.write(line + "\n"); }

std::string Output::file_of(int rank) const {
  if (options_.directory.empty()) return "";
  const auto server = options_.roles.server(rank);
  return server ? fmt::format("{}/server_{}.log", options_.directory, *server)
                : fmt::format("{}/rank_{}.log", options_.directory, rank);
}

void Output::write_file(int rank, std::string_view bytes) {
  Fd& file = files_[rank];
  if (!file) {
    file = Fd(open(file_of(rank).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (!file) note(fmt::format("{}: {}", file_of(rank), std::strerror(errno)));
  }
  while (file && !bytes.empty()) {
    const ssize_t n = ::write(file.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return note(fmt::format("{}: {}", file_of(rank), std::strerror(errno)));
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace asup::launch
