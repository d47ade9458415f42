// Memory for large tensors, which a training step takes and frees by the hundred megabytes.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "asup/tensors/pages.h"

namespace asup {

// Pieces of memory, which are used again by whoever asks for nearly as much. It never has more than
// was in use at once, so that a process needs no more than without it. Safe from any thread.
class TensorMemory {
 public:
  explicit TensorMemory(std::unique_ptr<Pages> pages) : pages_(std::move(pages)) {}
  TensorMemory(const TensorMemory&) = delete;
  TensorMemory& operator=(const TensorMemory&) = delete;
  ~TensorMemory();

  // Its contents are anything. nullptr where there is no more.
  void* take(std::size_t bytes);
  void give_back(void* data);  // needs: taken

  std::size_t in_use() const;
  std::size_t kept() const;  // and not in use

 private:
  struct Piece {
    void* data;
    std::size_t bytes;
  };
  using Pieces = std::list<Piece>;

  void* take_kept(std::size_t bytes);
  void* map(std::size_t bytes);
  // Until no more than that is kept. The first to be freed go first.
  void release_down_to(std::size_t bytes);

  const std::unique_ptr<Pages> pages_;
  mutable std::mutex mutex_;
  Pieces kept_;                                           // in the order in which they came
  std::multimap<std::size_t, Pieces::iterator> by_size_;  // of them
  std::unordered_map<void*, std::size_t> taken_;
  std::size_t bytes_kept_ = 0, bytes_taken_ = 0, most_taken_ = 0;
};

}  // namespace asup
