#include "asup/net/transport/ring.h"

#include <algorithm>
#include <cstring>

#include "asup/base/error.h"

namespace asup::net {

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

RingWriter::RingWriter(void* memory, std::size_t capacity)
    : header_(*static_cast<RingHeader*>(memory)),
      data_(static_cast<std::byte*>(memory) + sizeof(RingHeader)),
      capacity_(capacity) {
  check(capacity % kUnit == 0, "ring capacity {} is no multiple of {}", capacity, kUnit);
}

std::size_t RingWriter::room() {
  std::size_t room = capacity_ - (tail_ - known_head_);
  // The reader's line is fetched only when what was known does not do.
  if (room < capacity_ / 2) {
    known_head_ = header_.head.load(std::memory_order_acquire);
    room = capacity_ - (tail_ - known_head_);
  }
  return room;
}

std::size_t RingWriter::write(std::span<const ConstBytes> pieces) {
  std::size_t total = 0;
  for (ConstBytes piece : pieces) total += piece.size();
  const std::size_t taken = std::min(total, room()) / kUnit * kUnit;
  if (taken == 0) return 0;
  std::size_t left = taken;
  std::size_t at = tail_ % capacity_;
  for (ConstBytes piece : pieces) {
    while (!piece.empty() && left > 0) {
      const std::size_t n = std::min({piece.size(), left, capacity_ - at});
      std::memcpy(data_ + at, piece.data(), n);
      piece = piece.subspan(n);
      left -= n;
      at = (at + n) % capacity_;
    }
  }
  tail_ += taken;
  header_.tail.store(tail_, std::memory_order_release);
  return taken;
}

bool RingWriter::arm() {
  header_.writer_sleeps.store(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  known_head_ = header_.head.load(std::memory_order_acquire);
  return tail_ - known_head_ == capacity_;
}

void RingWriter::disarm() { header_.writer_sleeps.store(0, std::memory_order_relaxed); }

RingReader::RingReader(void* memory, std::size_t capacity)
    : header_(*static_cast<RingHeader*>(memory)),
      data_(static_cast<const std::byte*>(memory) + sizeof(RingHeader)),
      capacity_(capacity) {
  check(capacity % kUnit == 0, "ring capacity {} is no multiple of {}", capacity, kUnit);
}

ConstBytes RingReader::peek() {
  if (empty()) return {};
  const std::size_t at = head_ % capacity_;
  return {data_ + at, std::min<std::size_t>(known_tail_ - head_, capacity_ - at)};
}

bool RingReader::arm() {
  header_.reader_sleeps.store(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  known_tail_ = header_.tail.load(std::memory_order_acquire);
  return known_tail_ == head_;
}

void RingReader::disarm() { header_.reader_sleeps.store(0, std::memory_order_relaxed); }

}  // namespace asup::net
