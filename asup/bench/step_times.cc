#include "asup/bench/step_times.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "asup/base/clock.h"
#include "asup/base/error.h"
#include "asup/base/numbers.h"

namespace asup::bench {
namespace {

constexpr std::size_t kEntry = sizeof(BatchBegin);

// Whole entries from the one with this number on.
std::vector<BatchBegin> read_entries(int file, std::size_t first, std::size_t count) {
  std::vector<BatchBegin> entries(count);
  const ssize_t bytes =
      pread(file, entries.data(), count * kEntry, static_cast<off_t>(first * kEntry));
  entries.resize(bytes > 0 ? static_cast<std::size_t>(bytes) / kEntry : 0);
  return entries;
}

// At most so many, the last ones.
TimesByWorker read_last(const std::string& folder, std::size_t most) {
  TimesByWorker times;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(folder, missing)) {
    const auto pid = number_in<int>(entry.path().filename().string());
    const Fd file(open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
    if (!pid || !file) continue;
    const off_t bytes = lseek(file.get(), 0, SEEK_END);
    const std::size_t all = bytes > 0 ? static_cast<std::size_t>(bytes) / kEntry : 0;
    const std::size_t count = std::min(all, most);
    auto entries = read_entries(file.get(), all - count, count);
    if (!entries.empty()) times[*pid] = std::move(entries);
  }
  return times;
}

}  // namespace

double seconds_of_host() { return Seconds(Clock::now().time_since_epoch()).count(); }

StepTimes::StepTimes(const std::string& folder) {
  if (folder.empty()) return;
  const std::string path = fmt::format("{}/{}", folder, getpid());
  file_ = Fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  check(static_cast<bool>(file_), "{}: {}", path, std::strerror(errno));
}

void StepTimes::batch_begins(double progress) {
  if (!file_) return;
  const BatchBegin entry{seconds_of_host(), progress};
  check(write(file_.get(), &entry, kEntry) == static_cast<ssize_t>(kEntry),
        "times of steps cannot be written: {}", std::strerror(errno));
}

TimesByWorker read_step_times(const std::string& folder) {
  return read_last(folder, static_cast<std::size_t>(-1));
}

std::map<pid_t, BatchBegin> last_step_times(const std::string& folder) {
  std::map<pid_t, BatchBegin> last;
  for (const auto& [pid, entries] : read_last(folder, 1)) last[pid] = entries.back();
  return last;
}

}  // namespace asup::bench
