// One server's rows of an embedding table, with the state of their rule. Memory is taken from the
// system page by page, when rows are first updated; a row that never was is made anew whenever
// somebody asks for it. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "asup/layout/layout.h"
#include "asup/ps/table/setup.h"

namespace asup::ps::table {

// Rows of a push, as they came: ascending, and the gradient of each.
struct Chunk {
  std::vector<std::byte> bytes;  // `count` numbers of rows, then `count` times `width` floats
  std::size_t count = 0;

  const std::uint64_t* rows() const { return reinterpret_cast<const std::uint64_t*>(bytes.data()); }
  const float* gradient() const { return reinterpret_cast<const float*>(rows() + count); }
};

class Shard {
 public:
  Shard(const TableSetup& setup, int server, int servers);
  ~Shard();
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  const TableSetup& setup() const { return setup_; }
  std::uint64_t rows() const { return rows_; }
  // Whether all are rows of this server, in ascending order.
  bool has(std::span<const std::uint64_t> rows) const;

  // needs: has(rows)
  void read(std::span<const std::uint64_t> rows, float* to) const;

  // A push, which counts by its weight; rows ascend from chunk to chunk.
  struct Source {
    std::span<const Chunk> chunks;
    double weight = 1;
    double lr = 0;
  };
  // One update of each row that some source has, by the sum of the sources' weighted gradients:
  // those that do not have it count as zeros. Where learning rates differ, each counts by its own.
  // `share`: of a step, by which steps are counted for Adam's corrections.
  void update(std::span<const Source> sources, double share);

  // Records (the row, then its state) of rows by their places here. needs: places below rows()
  void read_records(layout::Range places, float* to) const;
  void write_records(layout::Range places, const float* from);
  // Steps that the table has had.
  double steps() const { return steps_; }
  void set_steps(double steps) { steps_ = steps; }

  std::uint64_t rows_kept() const { return rows_kept_; }  // in memory

 private:
  struct Block;

  std::size_t bytes() const {
    return words_ * sizeof(std::uint64_t) + rows_ * record_ * sizeof(float);
  }
  float* record(std::uint64_t place) const { return records_ + place * record_; }
  bool is_kept(std::uint64_t place) const { return (kept_[place / 64] >> (place % 64) & 1) != 0; }
  void keep(std::uint64_t place);
  void initial_record(std::uint64_t place, float* to) const;
  void update(Block& block, double lr);

  // Constant after construction.
  const TableSetup setup_;
  const int server_, servers_;
  const std::uint64_t rows_;
  const std::size_t width_, record_;  // floats
  const std::size_t words_;           // of kept_
  std::uint64_t* kept_ = nullptr;     // a bit a row; behind it, in the same memory:
  float* records_ = nullptr;

  std::uint64_t rows_kept_ = 0;
  double steps_ = 0;
};

}  // namespace asup::ps::table
