#include "asup/net/membership/failure_note.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "asup/base/error.h"

namespace asup::net {
namespace {

constexpr const char* kMemoryFile = "asup-failure-note";
constexpr std::size_t kLongest = 8 * 1024;
constexpr std::string_view kTorchBacktrace = "\nException raised from ";

// The descriptor, where it is still what the launcher made; its number may have been reused.
std::optional<int> note_fd() {
  const char* text = std::getenv("ASUP_NOTE_FD");
  if (text == nullptr || *text == '\0') return std::nullopt;
  const int fd = std::atoi(text);
  std::error_code error;
  const auto target = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), error);
  if (error || !target.string().starts_with(std::string("/memfd:") + kMemoryFile))
    return std::nullopt;
  return fd;
}

// What torchrun shows of a process that failed; the process itself writes it. For torchrun, the
// root cause is who ends first: others give it time to see who that was, and to end them.
void tell_torchrun(const FailureNote& note) {
  const char* path = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (path == nullptr || *path == '\0') return;
  if (note.kind == FailureNote::Kind::others) {
    sleep(1);
    return;
  }
  const nlohmann::json json{{"message", note.text}, {"timestamp", std::to_string(std::time({}))}};
  const std::string text = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (const Fd file(open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)); file)
      [[maybe_unused]]
    const auto written = write(file.get(), text.data(), text.size());
}

// A terminate handler has nothing but what the process keeps for it.
struct Teller {
  std::string who;
  std::terminate_handler before = nullptr;
};
Teller& teller() {
  static Teller teller;
  return teller;
}

void tell(const std::exception& error) {
  const FailureNote note = note_of(error);
  const std::string& who = teller().who;
  std::fprintf(stderr, "asup: %s%s%s\n", who.c_str(), who.empty() ? "" : ": ", note.text.c_str());
  leave_note(note);
  tell_torchrun(note);
  const bool others_handler = teller().before != __gnu_cxx::__verbose_terminate_handler;
  if (others_handler && teller().before) return;
  std::fflush(stdout);
  std::_Exit(note.exit_status());
}

void tell_and_end() {
  try {
    if (const auto error = std::current_exception()) std::rethrow_exception(error);
  } catch (const std::exception& error) {
    tell(error);
  } catch (...) {  // of no type that has words
  }
  if (teller().before) teller().before();
  std::abort();
}

}  // namespace

FailureNote note_of(const std::exception& error) {
  FailureNote note;
  if (dynamic_cast<const BadInput*>(&error) != nullptr) note.kind = FailureNote::Kind::bad_input;
  if (dynamic_cast<const JobFailed*>(&error) != nullptr) note.kind = FailureNote::Kind::others;
  note.text = error.what();
  note.text = note.text.substr(0, std::min(note.text.find(kTorchBacktrace), kLongest));
  return note;
}

Fd make_note_fd() {
  Fd fd(memfd_create(kMemoryFile, MFD_CLOEXEC));
  check(static_cast<bool>(fd), "memfd_create: {}", std::strerror(errno));
  return fd;
}

bool leave_note(const FailureNote& note) {
  const auto fd = note_fd();
  if (!fd) return false;
  struct stat status {};
  if (fstat(*fd, &status) != 0) return false;
  if (status.st_size > 0) return true;
  const std::string text = std::to_string(static_cast<int>(note.kind)) + note.text;
  return pwrite(*fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
}

std::optional<FailureNote> read_note(int fd) {
  std::string text(kLongest + 1, '\0');
  const ssize_t bytes = pread(fd, text.data(), text.size(), 0);
  if (bytes < 1 || text[0] < '0' || text[0] > '2') return std::nullopt;
  text.resize(static_cast<std::size_t>(bytes));
  return FailureNote{static_cast<FailureNote::Kind>(text[0] - '0'), text.substr(1)};
}

void tell_of_uncaught_exceptions(const std::string& who) {
  teller().who = who;
  if (std::get_terminate() == tell_and_end) return;
  teller().before = std::set_terminate(tell_and_end);
}

}  // namespace asup::net
