// A byte ring for one writer and one reader, in memory that both can reach: between processes in a
// shared mapping, between threads anywhere. Lock-free; each side is used by one thread at a time.
#pragma once

#include <atomic>
#include <cstdint>

#include "asup/net/transport/wire.h"

namespace asup::net {

// Lies in shared memory: plain data, zero-initialised, followed by `capacity` bytes.
struct RingHeader {
  alignas(64) std::atomic<std::uint64_t> tail;  // bytes ever written
  std::atomic<std::uint32_t> reader_sleeps;     // the writer shall ring after writing
  alignas(64) std::atomic<std::uint64_t> head;  // bytes ever read
  std::atomic<std::uint32_t> writer_sleeps;     // the reader shall ring after reading
};

class RingWriter {
 public:
  RingWriter(void* memory, std::size_t capacity);

  // Returns bytes taken, a multiple of kUnit.
  std::size_t write(std::span<const ConstBytes> pieces);
  // After a full fence: either we see it asleep here, or it sees the bytes before it sleeps.
  bool reader_sleeps() const { return header_.reader_sleeps.load(std::memory_order_relaxed) != 0; }

  // Before sleeping for room; false when there is room already.
  bool arm();
  void disarm();

 private:
  std::size_t room();

  RingHeader& header_;
  std::byte* data_;
  std::size_t capacity_;
  std::uint64_t tail_ = 0;
  std::uint64_t known_head_ = 0;
};

class RingReader {
 public:
  RingReader(void* memory, std::size_t capacity);

  // The writer says that it wrote more than fits, or a part of a unit.
  bool broken() const { return known_tail_ - head_ > capacity_ || known_tail_ % kUnit != 0; }

  ConstBytes peek();  // what can be read in one piece; empty when there is nothing
  void skip(std::size_t bytes) { head_ += bytes; }
  // Nothing to read.
  bool empty() {
    if (known_tail_ == head_) known_tail_ = header_.tail.load(std::memory_order_acquire);
    return known_tail_ == head_;
  }
  // Whether enough was read, or all there was, to give the room back: the writer's line is fetched
  // each time.
  bool owes_room() const {
    return head_ != given_ && (head_ == known_tail_ || head_ - given_ >= capacity_ / 8);
  }
  void give_room() {
    given_ = head_;
    header_.head.store(head_, std::memory_order_release);
  }
  // After a full fence, as above.
  bool writer_sleeps() const { return header_.writer_sleeps.load(std::memory_order_relaxed) != 0; }

  bool arm();
  void disarm();

 private:
  RingHeader& header_;
  const std::byte* data_;
  std::size_t capacity_;
  std::uint64_t head_ = 0;
  std::uint64_t given_ = 0;  // the head as the writer knows it
  std::uint64_t known_tail_ = 0;
};

}  // namespace asup::net
