#include "asup/tensors/pages.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>

#include "asup/base/error.h"

namespace asup {
namespace {

// Some file systems, as of networks and containers, make no file without a name: there it loses its
// name at once.
Fd open_without_name(const std::string& folder) {
  Fd file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file && (errno == EOPNOTSUPP || errno == EISDIR)) {
    std::string name = folder + "/asup-offload-XXXXXX";
    file = Fd(::mkostemp(name.data(), O_CLOEXEC));
    if (file) ::unlink(name.c_str());
  }
  require(static_cast<bool>(file),
          "{}: no file can be made there ({}). Give another folder (offload-folder)", folder,
          std::strerror(errno));
  struct statfs system {};
  const bool in_memory = ::fstatfs(file.get(), &system) == 0 &&
                         (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC);
  require(!in_memory,
          "{}: lies in memory (tmpfs), so that nothing would be saved. Give a folder on a disk "
          "(offload-folder)",
          folder);
  return file;
}

}  // namespace

void* HugePages::map(std::size_t bytes) {
  // One more, so that one of them begins at a multiple of its size.
  void* mapped =
      mmap(nullptr, bytes + size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  const auto before = (size() - reinterpret_cast<std::uintptr_t>(mapped) % size()) % size();
  std::byte* const data = static_cast<std::byte*>(mapped) + before;
  if (before > 0) munmap(mapped, before);
  if (before < size()) munmap(data + bytes, size() - before);
  (void)madvise(data, bytes, MADV_HUGEPAGE);
  return data;
}

void HugePages::unmap(void* data, std::size_t bytes) { munmap(data, bytes); }

FilePages::FilePages(const std::string& folder) : file_(open_without_name(folder)) {}

// Room on the disk is taken here: where it ran out later, touching a page would end the process.
void* FilePages::map(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::size_t place = free_.take(bytes);
  const auto begin = static_cast<off_t>(place), length = static_cast<off_t>(bytes);
  int status = 0;
  do status = posix_fallocate(file_.get(), begin, length);
  while (status == EINTR);
  void* const data =
      status == 0 ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), begin)
                  : MAP_FAILED;
  if (data == MAP_FAILED) {
    give_back(place, bytes);
    return nullptr;
  }
  places_[data] = place;
  return data;
}

void FilePages::unmap(void* data, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto place = places_.find(data);
  munmap(data, bytes);
  give_back(place->second, bytes);
  places_.erase(place);
}

std::size_t FilePages::end() {
  const std::lock_guard lock(mutex_);
  return free_.end();
}

// To the disk, and for what is mapped next.
void FilePages::give_back(std::size_t place, std::size_t bytes) {
  (void)fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  static_cast<off_t>(place), static_cast<off_t>(bytes));
  free_.give_back(place, bytes);
}

std::size_t FreeRanges::take(std::size_t bytes) {
  for (auto range = ranges_.begin(); range != ranges_.end(); ++range) {
    const auto [begin, length] = *range;
    if (length < bytes) continue;
    ranges_.erase(range);
    if (length > bytes) ranges_.emplace(begin + bytes, length - bytes);
    return begin;
  }
  return std::exchange(end_, end_ + bytes);
}

void FreeRanges::give_back(std::size_t begin, std::size_t bytes) {
  auto range = ranges_.emplace(begin, bytes).first;
  if (range != ranges_.begin()) {
    const auto before = std::prev(range);
    if (before->first + before->second == begin) {
      before->second += bytes;
      ranges_.erase(range);
      range = before;
    }
  }
  const auto after = std::next(range);
  if (after != ranges_.end() && range->first + range->second == after->first) {
    range->second += after->second;
    ranges_.erase(after);
  }
  if (range->first + range->second == end_) {
    end_ = range->first;
    ranges_.erase(range);
  }
}

}  // namespace asup
