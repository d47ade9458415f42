#include "asup/report/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "asup/base/error.h"
#include "asup/base/files.h"

namespace asup::report {
namespace {

std::string file_in(const std::string& folder) { return folder + "/.lock"; }

// False where another process has it.
bool try_lock(const Fd& file) {
  int status = 0;
  do status = flock(file.get(), LOCK_EX | LOCK_NB);
  while (status != 0 && errno == EINTR);
  return status == 0 || errno != EWOULDBLOCK;
}

void wait_for_lock(const Fd& file, const std::string& folder, Seconds patience) {
  const Deadline deadline = after(patience);
  while (!try_lock(file)) {
    require(Clock::now() < deadline,
            "{} is being written by {}: wait for its end, or give another folder", folder,
            read_file(file_in(folder)));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace

RunLock RunLock::take(const std::string& folder, const std::string& who, Seconds patience) {
  Fd file(::open(file_in(folder).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  require(static_cast<bool>(file), "{}: cannot be written ({})", file_in(folder),
          std::strerror(errno));
  wait_for_lock(file, folder, patience);
  const bool written =
      ::ftruncate(file.get(), 0) == 0 &&
      ::pwrite(file.get(), who.data(), who.size(), 0) == static_cast<ssize_t>(who.size());
  require(written, "{}: cannot be written ({})", file_in(folder), std::strerror(errno));
  return RunLock(std::move(file));
}

void RunLock::check_free(const std::string& folder, Seconds patience) {
  const Fd file(::open(file_in(folder).c_str(), O_RDONLY | O_CLOEXEC));
  if (file) wait_for_lock(file, folder, patience);
}

}  // namespace asup::report
