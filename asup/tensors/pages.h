// Where memory for tensors comes from. Safe from any thread, each piece in one at a time.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>

#include "asup/base/fd.h"

namespace asup {

class Pages {
 public:
  virtual ~Pages() = default;

  // Bytes of one; what is mapped has whole ones.
  virtual std::size_t size() const = 0;
  // nullptr where there are no more.
  virtual void* map(std::size_t bytes) = 0;
  virtual void unmap(void* data, std::size_t bytes) = 0;
};

// Of this process's memory, large ones where the system has them.
class HugePages final : public Pages {
 public:
  std::size_t size() const override { return std::size_t{2} << 20; }
  void* map(std::size_t bytes) override;
  void unmap(void* data, std::size_t bytes) override;
};

// Which parts of something that grows at its end are free. From one thread at a time.
class FreeRanges {
 public:
  // The first that is long enough, or one behind all there is.
  std::size_t take(std::size_t length);
  void give_back(std::size_t begin, std::size_t length);  // needs: taken
  std::size_t end() const { return end_; }                // nothing is taken from here on

 private:
  std::map<std::size_t, std::size_t> ranges_;  // lengths, by where they begin: none touch
  std::size_t end_ = 0;
};

// Of a file in a folder: the system writes them to its disk and takes their memory where that is
// short, and reads them again when they are touched. The file has no name, and goes with this.
class FilePages final : public Pages {
 public:
  // Throws BadInput for a folder that cannot be written to, or that lies in memory itself.
  explicit FilePages(const std::string& folder);

  std::size_t size() const override { return std::size_t{64} << 10; }
  void* map(std::size_t bytes) override;
  void unmap(void* data, std::size_t bytes) override;
  // Of the file: nothing is mapped from here on.
  std::size_t end();

 private:
  void give_back(std::size_t place, std::size_t bytes);

  const Fd file_;
  std::mutex mutex_;
  FreeRanges free_;                      // of the file
  std::map<void*, std::size_t> places_;  // in the file, of what is mapped
};

}  // namespace asup
