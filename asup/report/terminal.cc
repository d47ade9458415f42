#include "asup/report/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <limits>

namespace asup::report {
namespace {

bool set_and_not_empty(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

bool can_draw(int fd) {
  const char* term = std::getenv("TERM");
  return ::isatty(fd) == 1 && term != nullptr && std::string_view(term) != "dumb";
}

}  // namespace

Terminal::Terminal(int fd)
    : fd_(fd), live_(can_draw(fd)), color_(live_ && !set_and_not_empty("NO_COLOR")) {}

int Terminal::room() const {
  if (::isatty(fd_) != 1) return std::numeric_limits<int>::max();
  winsize size{};
  const bool known = ::ioctl(fd_, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return (known ? size.ws_col : 80) - 1;
}

std::string Terminal::styled(std::string_view style, std::string_view text) const {
  return color_ ? fmt::format("\x1b[{}m{}\x1b[0m", style, text) : std::string(text);
}

void Terminal::write(std::string_view text) const {
  while (!text.empty()) {
    const ssize_t written = ::write(fd_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace asup::report
