#include "asup/tensors/pages.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "asup/base/error.h"

namespace asup {
namespace {

Fd open_without_name(const std::string& folder) {
  Fd file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
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
  const auto begin = static_cast<off_t>(end_);
  int status = 0;
  do status = posix_fallocate(file_.get(), begin, static_cast<off_t>(bytes));
  while (status == EINTR);
  if (status != 0) return nullptr;
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), begin);
  if (data == MAP_FAILED) return nullptr;
  places_[data] = end_;
  end_ += bytes;
  return data;
}

void FilePages::unmap(void* data, std::size_t bytes) {
  munmap(data, bytes);
  const std::lock_guard lock(mutex_);
  const auto place = places_.find(data);
  (void)fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  static_cast<off_t>(place->second), static_cast<off_t>(bytes));
  places_.erase(place);
}

}  // namespace asup
